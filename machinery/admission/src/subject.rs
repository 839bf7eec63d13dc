//! Write that the plugins decide on, with the facts that they share.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use machinery_server::{AdmissionAttributes, ApiError, KubeNamespaces, Operation};
use serde_json::Value;

/// Source of the metadata of namespaces.
#[async_trait]
pub(crate) trait NamespaceMetadata: Send + Sync {
    /// Returns the metadata of a namespace; `None` when it does not exist.
    async fn metadata(&self, name: &str) -> Result<Option<Arc<PartialObjectMeta<Namespace>>>, ApiError>;
}

#[async_trait]
impl NamespaceMetadata for KubeNamespaces {
    async fn metadata(&self, name: &str) -> Result<Option<Arc<PartialObjectMeta<Namespace>>>, ApiError> {
        Self::metadata(self, name).await
    }
}

/// The namespace of a write cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SubjectError(pub(crate) ApiError);

/// Write that the plugins decide on.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) attributes: &'a AdmissionAttributes<'a>,
    /// Version of the objects: that of the request, or another one that a rule matches.
    pub(crate) version: &'a str,
    pub(crate) object: Option<&'a Value>,
    pub(crate) old: Option<&'a Value>,
    pub(crate) namespaces: &'a dyn NamespaceMetadata,
}

impl Subject<'_> {
    /// Returns the labels of the namespace.
    pub(crate) async fn namespace_labels(&self) -> Result<BTreeMap<String, String>, SubjectError> {
        let metadata = self.namespace().await?;
        Ok(metadata.metadata.labels.clone().unwrap_or_default())
    }

    /// Returns the metadata of the namespace.
    pub(crate) async fn namespace(&self) -> Result<Arc<PartialObjectMeta<Namespace>>, SubjectError> {
        let name = &self.attributes.context.namespace;
        let found = self.namespaces.metadata(name).await.map_err(SubjectError)?;
        found.ok_or_else(|| {
            let message = format!("namespaces {name:?} not found");
            SubjectError(ApiError::status(machinery_server::Reason::NotFound, message))
        })
    }
}

/// Returns the operation in the words of `admission.k8s.io`.
pub(crate) fn operation(attributes: &AdmissionAttributes<'_>) -> &'static str {
    match attributes.context.operation {
        Operation::Read => "CONNECT",
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

/// Returns the labels of an object.
pub(crate) fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.map(|labels| labels.iter().filter_map(text).collect()).unwrap_or_default()
}
