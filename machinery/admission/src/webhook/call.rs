//! One call of a webhook.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use machinery_server::ApiError;
use uuid::Uuid;

use super::{
    client::{Clients, PostError},
    hook::{Hook, ReviewVersion},
    review::{Answer, AnswerError, question},
    token::Tokens,
};
use crate::{
    cel::Evaluator,
    form::{Form, Forms},
    limiter::Limiter,
    metrics::{AdmissionMetrics, Call},
    refusal,
    subject::{Subject, operation},
};

/// Means of calling webhooks.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) clients: Clients,
    /// Tokens that prove this server; `None` when it presents none.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) limiter: Limiter,
    pub(crate) metrics: AdmissionMetrics,
    pub(crate) evaluator: Evaluator,
}

/// Kind of a webhook, in the words of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HookKind {
    Mutating,
    Validating,
}

impl HookKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// Outcome of a call that did not fail.
pub(crate) struct Allowed {
    /// JSON patch; empty for none.
    pub(crate) patch: Vec<u8>,
}

/// Failure of a call.
enum Failure {
    /// The failure policy decides.
    Call { why: String, code: i32 },
    /// The webhook has said no.
    Denied(Box<Status>),
    /// The write is refused, whatever the failure policy.
    Refused(ApiError),
}

impl Caller {
    /// Returns the objects in the version in which a webhook is to be called for a write; `None` when it is
    /// not to be called.
    pub(crate) async fn should_call(
        &self,
        hook: &Hook,
        subject: &Subject<'_>,
        forms: &mut Forms,
    ) -> Result<Option<Arc<Form>>, ApiError> {
        let Some(version) = hook.matched_version(subject.attributes) else { return Ok(None) };
        let selectors = hook.selectors.as_ref().map_err(|error| refusal::internal(&error.to_string()))?;
        if !selectors.match_subject(subject).await.map_err(|error| error.0)? {
            return Ok(None);
        }
        let form = forms.of(subject, version)?;
        if hook.conditions.is_empty() {
            return Ok(Some(form));
        }
        let shown = form.show(subject);
        let matched = self.evaluator.match_conditions(&hook.conditions, &shown, None).await?;
        let matched = matched.map_err(|why| {
            tracing::warn!(webhook = hook.name, why, "match conditions failed: the write is refused");
            refusal::forbidden(subject.attributes, &why)
        })?;
        Ok(matched.then_some(form))
    }

    /// Calls a webhook. `None` when it failed and its failure policy is `Ignore`.
    pub(crate) async fn call(
        &self,
        kind: HookKind,
        hook: &Hook,
        subject: &Subject<'_>,
    ) -> Result<Option<Allowed>, ApiError> {
        let started = Instant::now();
        let result = self.try_call(kind, hook, subject).await;
        let (code, rejection) = match &result {
            Ok(_) => (200, None),
            Err(Failure::Call { code, .. }) if hook.fails_open => (*code, None),
            Err(Failure::Call { code, .. }) => (*code, Some("calling_webhook_error")),
            Err(Failure::Denied(status)) => (status.code.unwrap_or_default(), Some("no_error")),
            Err(Failure::Refused(error)) => (i32::from(error.code()), Some("apiserver_internal_error")),
        };
        self.metrics.observe_call(Call {
            webhook: &hook.name,
            kind: kind.as_str(),
            operation: operation(subject.attributes),
            duration: started.elapsed(),
            code,
            rejection,
        });
        match result {
            Ok(allowed) => Ok(Some(allowed)),
            Err(Failure::Denied(status)) => Err(ApiError::Refused(status)),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Call { why, .. }) => {
                let (webhook, configuration) = (&hook.name, &hook.configuration);
                let message = format!("failed calling webhook {webhook:?}: {why}");
                if hook.fails_open {
                    tracing::warn!(webhook, configuration, why, "webhook failed and is ignored");
                    self.metrics.observe_fail_open(&hook.name, kind.as_str());
                    return Ok(None);
                }
                tracing::warn!(webhook, configuration, why, "webhook failed: the write is refused");
                Err(refusal::internal(&message))
            }
        }
    }

    async fn try_call(&self, kind: HookKind, hook: &Hook, subject: &Subject<'_>) -> Result<Allowed, Failure> {
        let context = subject.attributes.context;
        if context.dry_run && !hook.allows_dry_run {
            let message = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Failure::Refused(refusal::bad_request(message)));
        }
        let Some(version) = hook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview \
                       versions (v1, v1beta1)";
            return Err(Failure::Call { why: why.to_owned(), code: 400 });
        };
        let started = Instant::now();
        let place = self.limiter.enter(&context.user.name, hook.timeout).await;
        let Some(_place) = place else {
            return Err(Failure::Refused(refusal::too_many("calls of admission webhooks")));
        };
        let left = hook.timeout.saturating_sub(started.elapsed()).max(Duration::from_secs(1));
        let uid = Uuid::new_v4().to_string();
        let body = question(subject, version, &uid)
            .map_err(|error| Failure::Call { why: error.to_string(), code: 500 })?;
        let answer = tokio::time::timeout(left, self.post(kind, hook, subject, body, left)).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(uncalled(&error)),
            Err(_) => {
                let why = "failed to call webhook: context deadline exceeded".to_owned();
                return Err(Failure::Call { why, code: 503 });
            }
        };
        let answer = Answer::read(&answer, version, &uid).map_err(|error| invalid(&error))?;
        finish(kind, hook, subject, version, answer)
    }
}

impl Caller {
    /// Posts a question, with the token for the webhook where this server presents tokens.
    async fn post(
        &self,
        kind: HookKind,
        hook: &Hook,
        subject: &Subject<'_>,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, PostError> {
        let Some(tokens) = &self.tokens else {
            return self.clients.post(&hook.client, None, body, timeout).await;
        };
        let group = subject.attributes.group;
        let authorization = tokens.authorization(kind, hook, group).await?;
        let answer = self.clients.post(&hook.client, authorization, body, timeout).await;
        if matches!(answer, Err(PostError::Code { code: 401, .. })) {
            tokens.forget(kind, hook, group).await;
        }
        answer
    }
}

/// Passes on the warnings and annotations of an answer.
fn finish(
    kind: HookKind,
    hook: &Hook,
    subject: &Subject<'_>,
    version: ReviewVersion,
    answer: Answer,
) -> Result<Allowed, Failure> {
    let patch = match kind {
        HookKind::Mutating => answer.patch(version).map_err(|error| invalid(&error))?,
        HookKind::Validating => {
            answer.check_unpatched(version).map_err(|error| invalid(&error))?;
            Vec::new()
        }
    };
    for (key, value) in &answer.audit_annotations {
        subject.attributes.context.audit.add(format!("{}/{key}", hook.name), value);
    }
    for warning in &answer.warnings {
        subject.attributes.context.warnings.add(warning);
    }
    if !answer.allowed {
        return Err(Failure::Denied(Box::new(refusal::denied(&hook.name, answer.status))));
    }
    Ok(Allowed { patch })
}

fn uncalled(error: &PostError) -> Failure {
    let code = match error {
        PostError::Code { code, .. } => i32::from(*code),
        PostError::Unclear | PostError::Client(_) => 500,
        _ => 503,
    };
    Failure::Call { why: format!("failed to call webhook: {error}"), code }
}

fn invalid(error: &AnswerError) -> Failure {
    Failure::Call { why: format!("received invalid webhook response: {error}"), code: 503 }
}
