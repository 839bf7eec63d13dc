//! The relay of an endpoint's answer to the API server.

use std::time::Duration;

use evacuation_api::{Evacuation, EvacuationResponse, EvacuationResponseSpec, ReviewResponse};
use kube::{Api, Client, api::PostParams};

use super::course::PushError;
use crate::cluster::{CallError, ObjectKey, call};

/// Number of attempts to relay an answer before the failure is returned.
const RELAY_ATTEMPTS: u32 = 6;

/// Posts the answer, or the acknowledgement of a cancellation, to the Evacuation. An answer in hand is
/// not lost to an API that is away for some seconds. Before each attempt `still` makes sure that the pod
/// that answered is the target.
pub(super) async fn relay<Still: Future<Output = Result<(), PushError>>>(
    client: &Client,
    evacuation: &Evacuation,
    responder: &str,
    reply: Option<ReviewResponse>,
    still: impl Fn() -> Still,
) -> Result<(), PushError> {
    let key = ObjectKey::of(evacuation);
    let api: Api<Evacuation> = Api::namespaced(client.clone(), &key.namespace);
    let body = EvacuationResponse::new(relayed(evacuation, responder, reply));
    let parameters = PostParams::default();
    let mut failures = 0;
    loop {
        let attempt = async {
            still().await?;
            let request =
                api.create_subresource::<_, EvacuationResponse>("respond", &key.name, &parameters, &body);
            let action = format!("relay the answer of {responder} to evacuation {key}");
            Ok(call(action, request).await?)
        };
        match attempt.await {
            Ok(_) => return Ok(()),
            Err(PushError::Call(error)) if is_final(&error, &key.name) => {
                return Err(PushError::Relay(error));
            }
            Err(PushError::Call(error)) => {
                failures += 1;
                if failures >= RELAY_ATTEMPTS {
                    return Err(PushError::Call(error));
                }
                tokio::time::sleep(machinery_watch::backoff(
                    Duration::from_millis(200),
                    Duration::from_secs(5),
                    failures,
                ))
                .await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns true when the API server would say the same to each further attempt to relay an answer. Its own
/// failures, and those of the kube-apiserver before it, are not the app's: it is asked again.
fn is_final(error: &CallError, evacuation: &str) -> bool {
    let Some(status) = error.status() else { return false };
    let details = status.details.as_ref();
    match status.code {
        // Without the name the API itself is not there.
        404 => details.is_some_and(|details| details.name == evacuation),
        // Without a cause others changed the object at the same moment. Some causes end by themselves.
        409 => details.is_some_and(|told| !told.causes.is_empty() && told.retry_after_seconds == 0),
        400 | 413 | 422 => true,
        // A right that is missing for a moment, as while a role is replaced, is no fault of the app either.
        _ => false,
    }
}

/// Answer that is relayed for a reply.
fn relayed(
    evacuation: &Evacuation,
    responder: &str,
    reply: Option<ReviewResponse>,
) -> EvacuationResponseSpec {
    let spec = EvacuationResponseSpec {
        responder: Some(responder.to_owned()),
        evacuation_uid: evacuation.metadata.uid.clone(),
        pod_uid: evacuation.spec.target.pod.uid.clone(),
        ..EvacuationResponseSpec::default()
    };
    match reply {
        None => EvacuationResponseSpec { acknowledge_cancellation: true, ..spec },
        Some(reply) => EvacuationResponseSpec {
            // What the reply repeats, and not what was asked: the server compares once more.
            evacuation_uid: Some(reply.evacuation_uid),
            pod_uid: Some(reply.pod_uid),
            answer: Some(reply.answer),
            delay_seconds: reply.delay_seconds,
            retry_after_seconds: reply.retry_after_seconds,
            reason: reply.reason,
            message: reply.message,
            ..spec
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rule_11_only_a_reply_that_would_be_the_same_each_time_ends_the_relay_of_an_answer() {
        let table = [
            (404, json!({"name": "e", "kind": "evacuations"}), true, "the Evacuation is gone"),
            (404, json!(null), false, "the API is not there for a moment"),
            (404, json!({"name": "v1alpha1.evacuation.dev"}), false, "as before"),
            (409, json!({"causes": [{"reason": "EvacuationFinished"}]}), true, "it has ended"),
            (
                409,
                json!({"causes": [{"reason": "NotYet"}], "retryAfterSeconds": 3}),
                false,
                "it ends by itself",
            ),
            (409, json!({"name": "e"}), false, "the object has been modified"),
            (422, json!(null), true, "the answer is invalid"),
            (401, json!(null), false, "certificate authorities change"),
            (403, json!(null), false, "a role is replaced"),
            (408, json!(null), false, "the API is slow"),
            (429, json!(null), false, "the API is busy"),
            (500, json!(null), false, "the store does not answer"),
            (503, json!(null), false, "the API does not answer"),
        ];
        for (code, details, expected, what) in table {
            let status = json!({"status": "Failure", "code": code, "details": details});
            let status: kube::core::Status = serde_json::from_value(status).unwrap();
            let source = kube::Error::Api(status.boxed());
            let error = CallError::Api { action: "relay".to_owned(), source };
            assert_eq!(is_final(&error, "e"), expected, "{what}");
        }
        assert!(!is_final(&CallError::Timeout { action: "relay".to_owned() }, "e"));
    }
}
