//! ValidatingAdmissionPolicies. Source of the rules: `k8s.io/apiserver/pkg/admission/plugin/policy`.

mod annotations;
mod binding;
mod definition;
mod evaluation;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::{
    binding::Binding,
    definition::Policy,
    validate::{Enforcer, validate},
};
