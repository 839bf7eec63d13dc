//! A trial call of the gateway: a dry run of the eviction of a pod that does not exist.
//!
//! Replicas and webhooks tell that the gateway is installed, and only a call through the kube-apiserver that
//! it is reached.

use evacuation_api::{GATEWAY_ANSWERS, GATEWAY_STARTS, GATEWAY_TRIAL_POD};
use http::StatusCode;
use k8s_openapi::api::policy::v1::Eviction;
use kube::core::Status;
use serde_json::json;

use super::reader::{Answered, Read, Reader, Unread};

/// Beginning of the kube-apiserver's message about a webhook that it cannot call.
const NOT_CALLED: &str = "failed calling webhook \"evict.gateway.evacuation.dev\"";

/// Outcome of a trial call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// The gateway answered.
    Answered,
    /// The gateway answered that it cannot judge yet.
    Starts,
    /// The call passed, and the gateway did not answer.
    Passed,
    /// The call was rejected because the kube-apiserver cannot call the gateway, for that reason.
    Rejected(String),
}

/// Makes a trial call in that namespace.
///
/// # Errors
///
/// The reply does not tell: the user may not evict there, or the namespace does not exist.
pub(super) async fn call(reader: &Reader, namespace: &str) -> Read<Trial> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{GATEWAY_TRIAL_POD}/eviction?dryRun=All");
    let eviction = json!({"metadata": {"name": GATEWAY_TRIAL_POD, "namespace": namespace}});
    let eviction: Eviction =
        serde_json::from_value(eviction).map_err(|error| Unread::Failed(error.to_string()))?;
    outcome(&reader.call(&path, &eviction).await?)
}

fn outcome(reply: &Answered) -> Read<Trial> {
    for (said, trial) in [(GATEWAY_ANSWERS, Trial::Answered), (GATEWAY_STARTS, Trial::Starts)] {
        if reply.warnings.iter().any(|warning| warning == said) {
            return Ok(trial);
        }
    }
    let status: Status = serde_json::from_slice(&reply.body).unwrap_or_default();
    let is_of_pod = status.details.as_ref().is_some_and(|details| details.name == GATEWAY_TRIAL_POD);
    match reply.code {
        StatusCode::NOT_FOUND if is_of_pod => Ok(Trial::Passed),
        StatusCode::INTERNAL_SERVER_ERROR if status.message.contains(NOT_CALLED) => {
            // Before the cause is a URL with the secret of the gateway's path.
            let cause = status.message.rsplit_once("\": ").map(|(_, cause)| cause.to_owned());
            Ok(Trial::Rejected(cause.unwrap_or_default()))
        }
        _ => Err(reply.unread()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(code: u16, status: &serde_json::Value, warnings: &[&str]) -> Answered {
        Answered {
            code: StatusCode::from_u16(code).unwrap(),
            body: status.to_string().into(),
            ahead: None,
            warnings: warnings.iter().map(|warning| (*warning).to_owned()).collect(),
        }
    }

    #[test]
    fn the_reply_tells_whether_the_gateway_was_called_and_shows_no_secret_path() {
        let absent = json!({"code": 404, "details": {"name": GATEWAY_TRIAL_POD, "kind": "pods"}});
        assert_eq!(outcome(&reply(404, &absent, &["other", GATEWAY_ANSWERS])), Ok(Trial::Answered));
        assert_eq!(outcome(&reply(404, &absent, &[GATEWAY_STARTS])), Ok(Trial::Starts));
        assert_eq!(outcome(&reply(404, &absent, &[])), Ok(Trial::Passed));
        let message = "Internal error occurred: failed calling webhook \"evict.gateway.evacuation.dev\": failed to \
                       call webhook: Post \"https://10.0.0.1:9443/evict/TOKEN?timeout=1s\": dial tcp \
                       10.0.0.1:9443: connect: connection refused";
        let rejected = outcome(&reply(500, &json!({"code": 500, "message": message}), &[]));
        let cause = "dial tcp 10.0.0.1:9443: connect: connection refused".to_owned();
        assert_eq!(rejected, Ok(Trial::Rejected(cause)));
    }

    #[test]
    fn a_reply_of_another_kind_tells_nothing_of_the_gateway() {
        let namespace = json!({"code": 404, "details": {"name": "shop", "kind": "namespaces"}});
        assert_eq!(outcome(&reply(404, &namespace, &[])), Err(Unread::Absent));
        let denied = json!({"code": 403, "message": "\"eve\" cannot create resource \"pods/eviction\""});
        let right = "create resource \"pods/eviction\"".to_owned();
        assert_eq!(outcome(&reply(403, &denied, &[])), Err(Unread::Forbidden(right)));
        let other = json!({"code": 500, "message": "failed calling webhook \"deny.acme.io\": no route"});
        assert!(matches!(outcome(&reply(500, &other, &[])), Err(Unread::Failed(_))));
    }
}
