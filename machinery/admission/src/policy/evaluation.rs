//! Evaluation of one policy on one write. Source of the rules: `validator.go` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use kube_cel::cel::{Context, Value as Cel};

use super::definition::{Policy, Validation};
use crate::cel::{Budget, Environment, Program, map};

/// Maximum length of the message of a messageExpression, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;
/// Maximum length of an audit annotation, in bytes.
const MAX_ANNOTATION: usize = 10 * 1024;

/// Outcome of one validation that does not pass, or of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) message: String,
    /// Reason that the policy names.
    pub(super) reason: Option<String>,
    /// True when the policy could not be evaluated.
    pub(super) error: bool,
    pub(super) origin: Origin,
}

/// Part of a policy that a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A validation, by its index. As upstream, conditions count as the first one.
    Validation(usize),
    /// An audit annotation. Its error refuses the write, whatever the actions of the binding.
    AuditAnnotation,
}

/// Outcome of a policy.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) problems: Vec<Problem>,
    /// Errors that the failure policy ignores.
    pub(super) ignored: usize,
    pub(super) annotations: Vec<(String, String)>,
    pub(super) elapsed: Duration,
}

/// Evaluates a policy. Beyond the deadline it is not evaluated, which is an error.
pub(super) fn evaluate(
    policy: &Policy,
    environment: &Environment,
    params: Option<&Cel>,
    deadline: Instant,
) -> Outcome {
    let started = Instant::now();
    let budget = Budget::new();
    let mut outcome = Outcome::default();
    if started >= deadline {
        let message = "the policies of the request took too long, and this one was not evaluated";
        outcome.fail(policy, Origin::Validation(0), message.to_owned());
        return outcome;
    }
    let mut context = environment.context(params, &budget);
    match policy.conditions.matches(&context, &budget) {
        Ok(true) => {}
        Ok(false) => return outcome,
        Err(message) => {
            outcome.fail(policy, Origin::Validation(0), message);
            outcome.elapsed = started.elapsed();
            return outcome;
        }
    }
    let failed = add_variables(policy, &mut context, &budget);
    let explain = |program: &Program, error: String| explain(program, &failed, error);
    for (index, validation) in policy.validations.iter().enumerate() {
        let origin = Origin::Validation(index);
        match validation.expression.evaluate_bool(&context, &budget) {
            Ok(true) => {}
            Ok(false) => outcome.problems.push(Problem {
                message: message(validation, &context, &budget),
                reason: validation.reason.clone(),
                error: false,
                origin,
            }),
            Err(error) => outcome.fail(policy, origin, explain(&validation.expression, error)),
        }
    }
    for (key, program) in &policy.audit_annotations {
        let origin = Origin::AuditAnnotation;
        match program.evaluate(&context, &budget) {
            Ok(Cel::String(text)) if text.trim().is_empty() => {}
            Ok(Cel::String(text)) => {
                let text = cut(text.trim(), MAX_ANNOTATION).to_owned();
                outcome.annotations.push((key.clone(), text));
            }
            Ok(Cel::Null) => {}
            Ok(_) => {
                let source = program.source();
                let message = format!(
                    "valueExpression '{source}' resulted in unsupported return type. Return type must be either string or null."
                );
                outcome.problems.push(Problem { message, reason: None, error: true, origin });
            }
            Err(error) => outcome.fail(policy, origin, explain(program, error)),
        }
    }
    outcome.elapsed = started.elapsed();
    outcome
}

impl Outcome {
    /// Records an error, which the failure policy weighs.
    fn fail(&mut self, policy: &Policy, origin: Origin, message: String) {
        if policy.fails_open {
            self.ignored += 1;
        } else {
            self.problems.push(Problem { message, reason: None, error: true, origin });
        }
    }
}

/// Adds the variables that expressions of the policy name. Returns the errors of those that have no value:
/// they matter where an expression uses them.
fn add_variables(policy: &Policy, context: &mut Context<'_>, budget: &Budget) -> BTreeMap<String, String> {
    let mut failed = BTreeMap::new();
    let mut known: Vec<(&str, Cel)> = Vec::new();
    let used = |name: &str| {
        let programs = policy.validations.iter().flat_map(|validation| {
            std::iter::once(&validation.expression).chain(&validation.message_expression)
        });
        let others = policy.audit_annotations.iter().chain(&policy.variables).map(|(_, program)| program);
        programs.chain(others).any(|program| program.variables().contains(name))
    };
    context.add_variable_from_value("variables", map(std::iter::empty()));
    for (name, program) in policy.variables.iter().filter(|(name, _)| used(name)) {
        match program.evaluate(context, budget) {
            Ok(value) => {
                known.push((name, value));
                let variables = known.iter().map(|(name, value)| (*name, value.clone()));
                context.add_variable_from_value("variables", map(variables));
            }
            Err(error) => {
                failed.insert(name.clone(), explain(program, &failed, error));
            }
        }
    }
    failed
}

/// Returns the error of an expression with the error of the variable that it needs.
fn explain(program: &Program, failed: &BTreeMap<String, String>, error: String) -> String {
    match program.variables().iter().find_map(|name| failed.get_key_value(name)) {
        Some((name, cause)) => format!("{error}: composited variable {name:?} fails to evaluate: {cause}"),
        None => error,
    }
}

/// Returns the message of a validation that does not pass.
fn message(validation: &Validation, context: &Context<'_>, budget: &Budget) -> String {
    let evaluated = validation.message_expression.as_ref().map(|program| program.evaluate(context, budget));
    match evaluated {
        Some(Ok(Cel::String(text))) => {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                return text.to_owned();
            }
        }
        Some(Err(error)) => tracing::debug!(error, "messageExpression failed"),
        _ => {}
    }
    let message = validation.message.as_deref().unwrap_or_default().trim();
    if message.is_empty() {
        format!("failed expression: {}", validation.expression.source().trim())
    } else {
        message.to_owned()
    }
}

/// Cuts a text to a length in bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= most).last().unwrap_or_default();
    if text.len() <= most { text } else { text.get(..end).unwrap_or_default() }
}
