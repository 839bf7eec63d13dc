//! Refuses creation in a namespace that does not exist or is terminating. Source of the rule:
//! `k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle`.

use super::{NamespaceState, Namespaces};
use crate::{ApiError, Cause, Reason, resource_name::ResourceName, status::Target};

/// Refusal of a creation.
pub(crate) struct Refusal {
    pub(crate) error: ApiError,
    /// Target of the failure, when it is not the object.
    pub(crate) target: Option<Target>,
}

/// Checks that objects can be created in a namespace.
pub(crate) async fn admit_create(
    namespaces: &dyn Namespaces,
    resource: &ResourceName,
    namespace: &str,
) -> Result<(), Refusal> {
    let state = namespaces.state(namespace).await.map_err(|error| Refusal { error, target: None })?;
    match state {
        NamespaceState::Active => Ok(()),
        NamespaceState::Absent => {
            let core = ResourceName {
                group: String::new(),
                version: "v1".to_owned(),
                kind: "Namespace".to_owned(),
                plural: "namespaces".to_owned(),
            };
            Err(Refusal { error: core.not_found(namespace), target: Some(core.target(namespace)) })
        }
        NamespaceState::Terminating => {
            let cause = Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            };
            let error = ApiError::Status {
                reason: Reason::Forbidden,
                message: format!(
                    "{resource} is forbidden: unable to create new content in namespace {namespace} because it is \
                     being terminated"
                ),
                causes: vec![cause],
                retry_after_seconds: None,
            };
            Err(Refusal { error, target: None })
        }
    }
}
