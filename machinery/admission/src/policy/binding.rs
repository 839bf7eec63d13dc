//! Bindings of policies.

use k8s_openapi::api::admissionregistration::v1::{ParamRef, ValidatingAdmissionPolicyBinding};

use crate::matching::{Constraints, SelectorError};

/// A binding of a policy.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) policy: String,
    /// The resources, or why they cannot be read.
    pub(crate) resources: Result<Constraints, SelectorError>,
    pub(crate) param_ref: Option<ParamRef>,
    /// `Deny`, `Warn`, `Audit`.
    pub(crate) actions: Vec<String>,
}

impl Binding {
    pub(crate) fn compile(binding: &ValidatingAdmissionPolicyBinding) -> Self {
        let spec = binding.spec.clone();
        Self {
            name: binding.metadata.name.clone().unwrap_or_default(),
            policy: spec.policy_name,
            resources: Constraints::new(spec.match_resources.as_ref()),
            param_ref: spec.param_ref,
            actions: spec.validation_actions,
        }
    }
}
