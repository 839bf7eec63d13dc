//! Decision of the policies on a write. Source of the rules: `dispatcher.go` in
//! `k8s.io/apiserver/pkg/admission/plugin/policy/validating`.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use machinery_server::{AdmissionAttributes, ApiError};
use serde_json::Value;

use super::{
    Binding, Policy,
    annotations::{Annotations, Failure},
    evaluation::{self, Origin, Outcome},
};
use crate::{
    cel::{Environment, Evaluator, to_cel},
    form::Forms,
    metrics::{AdmissionMetrics, CheckLabels},
    params::Params,
    refusal,
    subject::{Subject, SubjectError},
};

/// Time after which no further policy of a write is evaluated. One evaluation takes a second at most.
const MAX_EVALUATION: Duration = Duration::from_secs(5);

/// Means of deciding by policies.
#[derive(Clone)]
pub(crate) struct Enforcer {
    pub(crate) evaluator: Evaluator,
    pub(crate) params: Params,
    pub(crate) metrics: AdmissionMetrics,
}

/// Evaluation of a policy by a binding, with params.
pub(super) struct Invocation {
    pub(super) policy: Arc<Policy>,
    pub(super) binding: Arc<Binding>,
    pub(super) params: Option<Arc<Value>>,
    /// Variables, with the objects in the version that the policy matches.
    pub(super) environment: Environment,
}

/// Invocation whose variables are not gathered yet.
struct Selected<'a> {
    policy: Arc<Policy>,
    binding: Arc<Binding>,
    params: Option<Arc<Value>>,
    /// Version that the policy matches.
    version: &'a str,
}

/// Denial by a policy.
#[derive(Debug)]
pub(super) struct Denial {
    policy: String,
    binding: Option<String>,
    pub(super) message: String,
    reason: Option<String>,
}

/// Refuses a write that a policy with a binding denies. Warnings go to the caller.
pub(crate) async fn validate(
    enforcer: &Enforcer,
    policies: &[(Arc<Policy>, Vec<Arc<Binding>>)],
    subject: &Subject<'_>,
) -> Result<(), ApiError> {
    let mut denials = Vec::new();
    let mut selected = Vec::new();
    for (policy, bindings) in policies {
        if let Err(why) = select(enforcer, policy, bindings, subject, &mut selected, &mut denials).await {
            misconfigured(policy, None, &format!("failed to configure policy: {why}"), &mut denials);
        }
    }
    if !selected.is_empty() {
        let invocations = prepare(enforcer, selected, subject).await?;
        let user = &subject.attributes.context.user.name;
        let evaluated = enforcer.evaluator.run(user, move || {
            // Here, so that the wait for a thread does not count.
            evaluate_all(invocations, Instant::now() + MAX_EVALUATION)
        });
        let mut annotations = Annotations::default();
        for (invocation, outcome) in evaluated.await? {
            let attributes = subject.attributes;
            enforce(&enforcer.metrics, attributes, &invocation, outcome, &mut denials, &mut annotations);
        }
        annotations.publish(&subject.attributes.context.audit);
    }
    match denials.first() {
        Some(denial) => Err(refuse(subject.attributes, denial)),
        None => Ok(()),
    }
}

/// Gathers the variables, once for each version.
async fn prepare(
    enforcer: &Enforcer,
    selected: Vec<Selected<'_>>,
    subject: &Subject<'_>,
) -> Result<Vec<Invocation>, ApiError> {
    let (mut forms, mut environments) = (Forms::default(), HashMap::<&str, Environment>::new());
    let mut invocations = Vec::new();
    for Selected { policy, binding, params, version } in selected {
        let environment = match environments.entry(version) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let form = forms.of(subject, version)?;
                place.insert(enforcer.evaluator.environment(&form.show(subject)).await?)
            }
        };
        invocations.push(Invocation { policy, binding, params, environment: environment.clone() });
    }
    Ok(invocations)
}

/// Evaluates the policies one after another.
pub(super) fn evaluate_all(invocations: Vec<Invocation>, deadline: Instant) -> Vec<(Invocation, Outcome)> {
    let evaluate = |invocation: Invocation| {
        let Invocation { policy, params, environment, .. } = &invocation;
        let params = params.as_deref().map(to_cel);
        let outcome = evaluation::evaluate(policy, environment, params.as_ref(), deadline);
        (invocation, outcome)
    };
    invocations.into_iter().map(evaluate).collect()
}

/// Selects the bindings of a policy that apply to a write, with their params.
async fn select<'a>(
    enforcer: &Enforcer,
    policy: &Arc<Policy>,
    bindings: &[Arc<Binding>],
    subject: &Subject<'a>,
    selected: &mut Vec<Selected<'a>>,
    denials: &mut Vec<Denial>,
) -> Result<(), String> {
    let text = |error: SubjectError| error.to_string();
    let constraints = policy.constraints.as_ref().map_err(ToString::to_string)?;
    let Some(version) = constraints.match_subject(subject).await.map_err(text)? else { return Ok(()) };
    for binding in bindings {
        let matches = match &binding.resources {
            Ok(resources) => resources.match_subject(subject).await.map_err(text),
            Err(error) => Err(error.to_string()),
        };
        let params = match matches {
            Ok(None) => continue,
            Ok(Some(_)) => {
                let namespace = &subject.attributes.context.namespace;
                let (kind, reference) = (policy.param_kind.as_ref(), binding.param_ref.as_ref());
                enforcer.params.collect(kind, reference, namespace).await.map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        match params {
            Ok(params) => selected.extend(params.into_iter().map(|params| Selected {
                policy: policy.clone(),
                binding: binding.clone(),
                params,
                version,
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
pub(super) fn enforce(
    metrics: &AdmissionMetrics,
    attributes: &AdmissionAttributes<'_>,
    invocation: &Invocation,
    outcome: Outcome,
    denials: &mut Vec<Denial>,
    annotations: &mut Annotations,
) {
    let Invocation { policy, binding, .. } = invocation;
    let (policy, binding_name) = (&policy.name, &binding.name);
    let observe = |action: &'static str, error: bool| {
        let labels = CheckLabels {
            policy: policy.clone(),
            policy_binding: binding_name.clone(),
            error_type: if error { "invalid_error" } else { "no_error" },
            enforcement_action: action,
        };
        metrics.observe_check(&labels, outcome.elapsed);
    };
    for _ in 0..outcome.ignored {
        observe("allow", true);
    }
    for problem in &outcome.problems {
        let mut deny = || {
            observe("deny", problem.error);
            denials.push(Denial {
                policy: policy.clone(),
                binding: Some(binding_name.clone()),
                message: problem.message.clone(),
                reason: problem.reason.clone(),
            });
        };
        let Origin::Validation(expression_index) = problem.origin else {
            deny();
            continue;
        };
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => deny(),
                "Warn" => {
                    observe("warn", problem.error);
                    let message = &problem.message;
                    attributes.context.warnings.add(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding_name}': {message}"
                    ));
                }
                "Audit" => {
                    observe("audit", problem.error);
                    annotations.add_failure(Failure {
                        message: &problem.message,
                        policy,
                        binding: binding_name,
                        expression_index,
                        validation_actions: &binding.actions,
                    });
                }
                _ => {}
            }
        }
    }
    for (key, value) in outcome.annotations {
        annotations.add(format!("{policy}/{key}"), value);
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
