//! Parts of unit tests.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use machinery_auth::{Attributes, AuthError, Authorizer, UserInfo, Verdict};
use machinery_server::{AdmissionAttributes, ApiError, ObjectConverter, Operation, RequestContext};
use serde_json::{Value, json};

use crate::subject::{NamespaceMetadata, Subject};

/// Namespaces that all have the label `env: prod`, except `none`, which does not exist.
pub(crate) struct Namespaces;

#[async_trait]
impl NamespaceMetadata for Namespaces {
    async fn metadata(&self, name: &str) -> Result<Option<Arc<PartialObjectMeta<Namespace>>>, ApiError> {
        let metadata = json!({"metadata": {"name": name, "labels": {"env": "prod"}}});
        Ok((name != "none").then(|| Arc::new(serde_json::from_value(metadata).unwrap())))
    }
}

/// Allows everything to `admin`.
pub(crate) struct Admins;

#[async_trait]
impl Authorizer for Admins {
    async fn authorize(&self, attributes: &Attributes) -> Result<Verdict, AuthError> {
        let denied = Verdict::Denied { reason: "not admin".to_owned() };
        Ok(if attributes.user.name == "admin" { Verdict::Allowed } else { denied })
    }
}

/// Versions of pots: servings are `servings` in v1 and `portions` in v2.
#[derive(Debug)]
pub(crate) struct TwoVersions;

impl ObjectConverter for TwoVersions {
    fn versions(&self) -> Vec<&str> {
        vec!["v1", "v2"]
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ApiError> {
        let field = |version: &str| if version == "v1" { "servings" } else { "portions" };
        let mut object = object.clone();
        object["apiVersion"] = json!(format!("kitchen.dev/{to}"));
        let spec =
            object["spec"].as_object_mut().ok_or_else(|| ApiError::internal("converting", "no spec"))?;
        if let Some(servings) = spec.remove(field(from)) {
            spec.insert(field(to).to_owned(), servings);
        }
        Ok(object)
    }
}

/// A write of the pot `a` by jane.
pub(crate) struct Write {
    pub(crate) context: RequestContext,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
}

impl Write {
    pub(crate) fn new(operation: Operation, object: Option<Value>, old: Option<Value>) -> Self {
        let user = UserInfo { name: "jane".to_owned(), ..UserInfo::default() };
        let mut context = RequestContext::new(user, "shop", chrono::Utc::now());
        context.operation = operation;
        Self { context, object, old }
    }

    /// The creation of an object.
    pub(crate) fn create(object: Value) -> Self {
        Self::new(Operation::Create, Some(object), None)
    }

    pub(crate) fn attributes(&self) -> AdmissionAttributes<'_> {
        AdmissionAttributes {
            context: &self.context,
            group: "kitchen.dev",
            version: "v1",
            converter: None,
            resource: "pots",
            kind: "Pot",
            kind_version: None,
            name: "a",
            options: None,
        }
    }

    pub(crate) fn subject<'a>(&'a self, attributes: &'a AdmissionAttributes<'a>) -> Subject<'a> {
        let (object, old) = (self.object.as_ref(), self.old.as_ref());
        Subject { attributes, version: attributes.version, object, old, namespaces: &Namespaces }
    }
}
