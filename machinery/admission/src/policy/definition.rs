//! Compiled policies.

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ValidatingAdmissionPolicy};

use crate::{
    cel::{Conditions, Program},
    matching::{Constraints, SelectorError},
};

/// A compiled policy.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    /// The constraints, or why they cannot be read.
    pub(crate) constraints: Result<Constraints, SelectorError>,
    pub(crate) conditions: Conditions,
    /// Variables in their order.
    pub(crate) variables: Vec<(String, Program)>,
    pub(crate) validations: Vec<Validation>,
    /// Keys and values of audit annotations.
    pub(crate) audit_annotations: Vec<(String, Program)>,
    /// True when an error does not refuse the write.
    pub(crate) fails_open: bool,
    pub(crate) param_kind: Option<ParamKind>,
}

/// One validation of a policy.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) expression: Program,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<Program>,
    pub(crate) reason: Option<String>,
}

impl Policy {
    /// Compiles a policy. Errors in its expressions show when they are evaluated.
    pub(crate) fn compile(policy: &ValidatingAdmissionPolicy) -> Self {
        let spec = policy.spec.clone().unwrap_or_default();
        let fails_open = spec.failure_policy.as_deref() == Some("Ignore");
        let validations = spec.validations.iter().flatten().map(|validation| Validation {
            expression: Program::compile(&validation.expression),
            message: validation.message.clone(),
            message_expression: validation.message_expression.as_deref().map(Program::compile),
            reason: validation.reason.clone(),
        });
        let variables = spec.variables.iter().flatten();
        let annotations = spec.audit_annotations.iter().flatten();
        Self {
            name: policy.metadata.name.clone().unwrap_or_default(),
            constraints: Constraints::new(spec.match_constraints.as_ref()),
            conditions: Conditions::new(spec.match_conditions.as_deref().unwrap_or_default(), fails_open),
            variables: variables
                .map(|variable| (variable.name.clone(), Program::compile(&variable.expression)))
                .collect(),
            validations: validations.collect(),
            audit_annotations: annotations
                .map(|annotation| (annotation.key.clone(), Program::compile(&annotation.value_expression)))
                .collect(),
            fails_open,
            param_kind: spec.param_kind,
        }
    }
}
