//! Decision of the policies on a write. Source of the rules: `dispatcher.go` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use kube_cel::cel::Value as Cel;
use machinery_server::{AdmissionAttributes, ApiError};
use serde_json::json;

use super::{
    Binding, Policy,
    evaluation::{self, Outcome},
};
use crate::{
    cel::Evaluator,
    metrics::{AdmissionMetrics, CheckLabels},
    params::Params,
    refusal,
    subject::{Subject, SubjectError},
};

/// Audit annotation of a validation that failed, when the binding has the action `Audit`.
const VALIDATION_FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Means of deciding by policies.
#[derive(Clone)]
pub(crate) struct Enforcer {
    pub(crate) evaluator: Evaluator,
    pub(crate) params: Params,
    pub(crate) metrics: AdmissionMetrics,
}

/// Evaluation of a policy by a binding, with params.
struct Invocation {
    policy: Arc<Policy>,
    binding: Arc<Binding>,
    params: Option<Cel>,
}

/// Denial by a policy.
struct Denial {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: Option<String>,
}

/// Refuses a write that a policy with a binding denies. Warnings go to the caller.
pub(crate) async fn validate(
    enforcer: &Enforcer,
    policies: &[(Arc<Policy>, Vec<Arc<Binding>>)],
    subject: &Subject<'_>,
) -> Result<(), ApiError> {
    let mut denials = Vec::new();
    let mut invocations = Vec::new();
    for (policy, bindings) in policies {
        if let Err(why) = select(enforcer, policy, bindings, subject, &mut invocations, &mut denials).await {
            misconfigured(policy, None, &format!("failed to configure policy: {why}"), &mut denials);
        }
    }
    if !invocations.is_empty() {
        let environment = enforcer.evaluator.environment(subject).await?;
        let user = &subject.attributes.context.user.name;
        let evaluated = enforcer.evaluator.run(user, move || {
            let evaluate = |invocation: Invocation| {
                let Invocation { policy, params, .. } = &invocation;
                let outcome = evaluation::evaluate(policy, &environment, params.as_ref());
                (invocation, outcome)
            };
            invocations.into_iter().map(evaluate).collect::<Vec<_>>()
        });
        for (invocation, outcome) in evaluated.await? {
            enforce(enforcer, subject.attributes, &invocation, &outcome, &mut denials);
        }
    }
    match denials.first() {
        Some(denial) => Err(refuse(subject.attributes, denial)),
        None => Ok(()),
    }
}

/// Selects the bindings of a policy that apply to a write, with their params.
async fn select(
    enforcer: &Enforcer,
    policy: &Arc<Policy>,
    bindings: &[Arc<Binding>],
    subject: &Subject<'_>,
    invocations: &mut Vec<Invocation>,
    denials: &mut Vec<Denial>,
) -> Result<(), String> {
    let text = |error: SubjectError| error.to_string();
    let constraints = policy.constraints.as_ref().map_err(ToString::to_string)?;
    if !constraints.match_subject(subject).await.map_err(text)? {
        return Ok(());
    }
    for binding in bindings {
        let matches = match &binding.resources {
            Ok(resources) => resources.match_subject(subject).await.map_err(text),
            Err(error) => Err(error.to_string()),
        };
        let params = match matches {
            Ok(false) => continue,
            Ok(true) => {
                let namespace = &subject.attributes.context.namespace;
                let (kind, reference) = (policy.param_kind.as_ref(), binding.param_ref.as_ref());
                enforcer.params.collect(kind, reference, namespace).await.map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        match params {
            Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                policy: policy.clone(),
                binding: binding.clone(),
                params,
            })),
            Err(why) => {
                let why = format!("failed to configure binding: {why}");
                misconfigured(policy, Some(binding), &why, denials);
            }
        }
    }
    Ok(())
}

/// Records a policy that cannot be used, which its failure policy weighs.
fn misconfigured(policy: &Policy, binding: Option<&Binding>, why: &str, denials: &mut Vec<Denial>) {
    tracing::warn!(policy = policy.name, why, ignored = policy.fails_open, "admission policy cannot be used");
    if !policy.fails_open {
        denials.push(Denial {
            policy: policy.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            message: why.to_owned(),
            reason: None,
        });
    }
}

/// Does what the binding says about the problems that a policy found.
fn enforce(
    enforcer: &Enforcer,
    attributes: &AdmissionAttributes<'_>,
    invocation: &Invocation,
    outcome: &Outcome,
    denials: &mut Vec<Denial>,
) {
    let Invocation { policy, binding, .. } = invocation;
    let observe = |action: &'static str, error: bool| {
        let labels = CheckLabels {
            policy: policy.name.clone(),
            policy_binding: binding.name.clone(),
            error_type: if error { "invalid_error" } else { "no_error" },
            enforcement_action: action,
        };
        enforcer.metrics.observe_check(&labels, outcome.elapsed);
    };
    for _ in 0..outcome.ignored {
        observe("allow", true);
    }
    for problem in &outcome.problems {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => {
                    observe("deny", problem.error);
                    denials.push(Denial {
                        policy: policy.name.clone(),
                        binding: Some(binding.name.clone()),
                        message: problem.message.clone(),
                        reason: problem.reason.clone(),
                    });
                }
                "Warn" => {
                    observe("warn", problem.error);
                    let (policy, binding, message) = (&policy.name, &binding.name, &problem.message);
                    attributes.context.warnings.add(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
                    ));
                }
                "Audit" => {
                    observe("audit", problem.error);
                    let failure = json!([{
                        "message": problem.message, "policy": policy.name, "binding": binding.name,
                        "validationActions": binding.actions,
                    }]);
                    attributes.context.audit.add(VALIDATION_FAILURE, failure.to_string());
                }
                _ => {}
            }
        }
    }
    for (key, value) in &outcome.annotations {
        attributes.context.audit.add(format!("{}/{key}", policy.name), value);
    }
}

fn refuse(attributes: &AdmissionAttributes<'_>, denial: &Denial) -> ApiError {
    let Denial { policy, binding, message, reason } = denial;
    let message = match binding {
        Some(binding) => {
            format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}")
        }
        None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
    };
    let mut status = refusal::forbidden_status(attributes, &message);
    let reason = reason.clone().unwrap_or_else(|| "Invalid".to_owned());
    status.code = Some(match reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    });
    status.reason = Some(reason);
    if let Some(details) = &mut status.details {
        details.causes = Some(vec![StatusCause { message: Some(message), ..StatusCause::default() }]);
    }
    ApiError::Refused(Box::new(status))
}
