//! Match conditions. Source of the rules: `k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions`.

use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use kube_cel::cel::Context;

use super::{Program, budget::Budget};

/// Conditions that must all be true.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    programs: Vec<Program>,
    fails_open: bool,
}

impl Conditions {
    /// Compiles the conditions. One that cannot be evaluated counts as false when `fails_open`.
    pub(crate) fn new(conditions: &[MatchCondition], fails_open: bool) -> Self {
        let programs = conditions.iter().map(|condition| Program::compile(&condition.expression));
        Self { programs: programs.collect(), fails_open }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Returns true when all are true. One that is false decides, whatever the errors of others.
    pub(crate) fn matches(&self, context: &Context<'_>, budget: &Budget) -> Result<bool, String> {
        let mut errors = Vec::new();
        for program in &self.programs {
            match program.evaluate_bool(context, budget) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if self.fails_open => Ok(false),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }
}
