//! Parts of unit tests.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use machinery_auth::{Attributes, AuthError, Authorizer, UserInfo, Verdict};
use machinery_server::{AdmissionAttributes, ApiError, Operation, RequestContext};
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
            resource: "pots",
            kind: "Pot",
            kind_version: None,
            name: "a",
            options: None,
        }
    }

    pub(crate) fn subject<'a>(&'a self, attributes: &'a AdmissionAttributes<'a>) -> Subject<'a> {
        Subject { attributes, object: self.object.as_ref(), old: self.old.as_ref(), namespaces: &Namespaces }
    }
}
