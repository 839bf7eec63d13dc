//! Posts of answers, until they are recorded or pointless.

use std::time::Duration;

use async_trait::async_trait;
use evacuation_api::{EvacuationResponse, EvacuationResponseSpec, EvacuationResponseStatus};
use kube::{Api, api::PostParams, core::Status};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{RespondError, backoff::Retry, error::causes, error_chain, is_missing, source::Source};

/// Timeout of one post.
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a 401 or 403 is tried again. An API server that has just started knows neither tokens nor
/// roles.
const STRANGER_PATIENCE: Duration = Duration::from_secs(30);

/// Conditions that stop posting.
#[derive(Clone, Copy)]
pub(crate) struct Until<'a> {
    /// The question has ended: posting stops at once.
    pub(crate) closed: &'a CancellationToken,
    /// The answer is no longer wanted: no further try starts. A try that is under way is awaited; otherwise
    /// the server could record it after a later answer.
    pub(crate) enough: &'a CancellationToken,
}

/// Posts answers to one Evacuation, through either kind.
#[async_trait]
pub(crate) trait Post: Send + Sync {
    async fn post(
        &self,
        spec: EvacuationResponseSpec,
        until: Until<'_>,
    ) -> Result<EvacuationResponseStatus, RespondError>;
}

/// Posts to the subresource `respond` of one object.
pub(crate) struct Poster<S: Source> {
    api: Api<S>,
    namespace: String,
    name: String,
    uid: String,
}

impl<S: Source> Poster<S> {
    pub(crate) fn new(client: kube::Client, object: &S) -> Self {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        Self {
            api: Api::namespaced(client, &namespace),
            namespace,
            name: object.meta().name.clone().unwrap_or_default(),
            uid: object.uid().to_owned(),
        }
    }

    fn evacuation(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Returns whether another try can help to answer the Evacuation of that name, that long after the first one.
fn transient(error: &kube::Error, name: &str, after: Duration) -> bool {
    match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => after < STRANGER_PATIENCE,
            404 => !is_missing(status, name),
            // Every conflict with the question has a cause; others kept changing the object.
            409 if causes(status).is_empty() => true,
            // JSON of another program, such as a proxy before the kube-apiserver, has no code.
            0 | 408 | 429 => true,
            501 => false,
            code => code >= 500 || retry_asked(status),
        },
        _ => true,
    }
}

/// Returns whether the server named a time to try again.
fn retry_asked(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0)
}

#[async_trait]
impl<S: Source> Post for Poster<S> {
    async fn post(
        &self,
        spec: EvacuationResponseSpec,
        until: Until<'_>,
    ) -> Result<EvacuationResponseStatus, RespondError> {
        let spec = EvacuationResponseSpec { evacuation_uid: Some(self.uid.clone()), ..spec };
        let response = EvacuationResponse::new(spec);
        let closed_error = || RespondError::Closed { evacuation: self.evacuation() };
        let mut retry = Retry::default();
        let begun = Instant::now();
        loop {
            let params = PostParams::default();
            let call = self
                .api
                .create_subresource::<_, EvacuationResponse>("respond", &self.name, &params, &response);
            let error = tokio::select! {
                () = until.closed.cancelled() => return Err(closed_error()),
                result = tokio::time::timeout(POST_TIMEOUT, call) => match result {
                    Ok(Ok(recorded)) => return Ok(recorded.status.unwrap_or_default()),
                    Ok(Err(error)) if !transient(&error, &self.name, begun.elapsed()) => {
                        let source = Box::new(error);
                        return Err(RespondError::Refused { evacuation: self.evacuation(), source });
                    }
                    Ok(Err(error)) => error_chain(&error),
                    Err(_) => format!("no reply within {} s", POST_TIMEOUT.as_secs()),
                },
            };
            let pause = retry.next().unwrap_or(POST_TIMEOUT);
            let evacuation = self.evacuation();
            tracing::warn!("evacuation {evacuation}: the answer was not recorded, trying again: {error}");
            tokio::select! {
                () = until.closed.cancelled() => return Err(closed_error()),
                () = until.enough.cancelled() => return Err(closed_error()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::replying;

    #[test]
    fn only_failures_that_pass_by_themselves_are_tried_again() {
        let ours = json!([{"reason": "ResponderNotActive"}]);
        for (code, details, expected) in [
            (0, json!({}), true),
            (400, json!({}), false),
            (404, json!({"name": "a"}), false),
            (404, json!({"name": "shop", "kind": "namespaces"}), true),
            (404, json!({}), true),
            (404, json!(null), true),
            (408, json!({}), true),
            (409, json!({"name": "a", "causes": ours}), false),
            (409, json!({"name": "a", "causes": ours, "retryAfterSeconds": 1}), true),
            (409, json!({"name": "a"}), true),
            (409, json!(null), true),
            (410, json!({}), false),
            (422, json!({}), false),
            (429, json!({}), true),
            (500, json!({}), true),
            (501, json!({}), false),
            (503, json!({}), true),
        ] {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "details": details});
            let error = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
            assert_eq!(transient(&error, "a", Duration::ZERO), expected, "{code} {details}");
        }
    }

    /// Posts to an API that replies so, one reply after another and the last one for ever.
    async fn post(replies: &'static [(u16, &'static str)]) -> Result<EvacuationResponseStatus, RespondError> {
        let evacuation: evacuation_api::Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
            "spec": {"target": {"pod": {"name": "db-0"}}},
        }))
        .unwrap();
        let poster = Poster::new(replying(replies), &evacuation);
        let never = CancellationToken::new();
        let until = Until { closed: &never, enough: &never };
        poster.post(EvacuationResponseSpec::default(), until).await
    }

    const FORBIDDEN: &str = r#"{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden"}"#;
    const TAKEN: &str = r#"{"spec":{},"status":{"grantedSeconds":7}}"#;

    #[tokio::test(start_paused = true)]
    async fn an_answer_outlives_an_api_that_does_not_know_the_app_yet() {
        let recorded = post(&[(403, FORBIDDEN), (401, FORBIDDEN), (403, FORBIDDEN), (201, TAKEN)]).await;
        assert_eq!(recorded.unwrap().granted_seconds, Some(7));
    }

    const GONE: &str =
        r#"{"kind":"Status","status":"Failure","code":404,"reason":"NotFound","details":{"name":"a"}}"#;
    const UNREGISTERED: &str = r#"{"kind":"Status","status":"Failure","code":404,"reason":"NotFound",
        "message":"the server could not find the requested resource","details":{}}"#;
    const LOST_TURN: &str =
        r#"{"kind":"Status","status":"Failure","code":409,"reason":"Conflict","details":{"name":"a"}}"#;

    #[tokio::test(start_paused = true)]
    async fn an_answer_outlives_an_api_that_is_not_registered_and_ends_with_its_evacuation() {
        let replies: &'static [_] =
            &[(404, "404 page not found"), (404, UNREGISTERED), (408, ""), (409, LOST_TURN), (201, TAKEN)];
        assert_eq!(post(replies).await.unwrap().granted_seconds, Some(7));
        let refused = post(&[(404, UNREGISTERED), (404, GONE), (201, TAKEN)]).await;
        assert!(matches!(refused, Err(RespondError::Refused { .. })), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_outlives_a_proxy_that_fails_in_json_of_its_own() {
        let recorded = post(&[(502, r#"{"error":"no healthy upstream"}"#), (201, TAKEN)]).await;
        assert_eq!(recorded.unwrap().granted_seconds, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn an_app_that_may_not_answer_is_told_after_half_a_minute() {
        let begun = Instant::now();
        let refused = post(&[(403, FORBIDDEN)]).await;
        assert!(matches!(refused, Err(RespondError::Refused { .. })), "{refused:?}");
        assert!(begun.elapsed() >= STRANGER_PATIENCE);
        assert!(begun.elapsed() < STRANGER_PATIENCE * 2);
    }
}
