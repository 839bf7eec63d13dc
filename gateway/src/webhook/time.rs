//! The time in which a call is answered.

use std::time::Duration;

use actix_web::web::Query;
use serde::Deserialize;

/// Time for which the kube-apiserver waits if it names none: that of the shipped webhooks.
const SHIPPED: u64 = 1;
/// Maximum `timeoutSeconds` of a webhook.
const LONGEST: u64 = 30;
/// Time by which the answer comes before the kube-apiserver gives up.
const MARGIN: Duration = Duration::from_millis(200);

/// Parameters of a call. The kube-apiserver sends `timeoutSeconds` of the webhook, or the whole seconds that
/// the caller still waits, such as `1s`. Source: `callHook` of
/// `k8s.io/apiserver/pkg/admission/plugin/webhook/validating`.
#[derive(Deserialize)]
struct Parameters {
    timeout: Option<String>,
}

/// Returns the time in which a call with that query is answered, the review of its token included.
pub(super) fn time_to_answer(query: &str) -> Duration {
    let parameters = Query::<Parameters>::from_query(query).ok();
    let named = parameters.and_then(|parameters| parameters.into_inner().timeout);
    let seconds = named.and_then(|named| named.strip_suffix('s')?.parse::<u64>().ok());
    let seconds = seconds.filter(|seconds| (1..=LONGEST).contains(seconds)).unwrap_or(SHIPPED);
    Duration::from_secs(seconds).saturating_sub(MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_before_the_kube_apiserver_gives_up() {
        for (query, milliseconds) in [
            ("timeout=1s", 800),
            ("timeout=5s", 4800),
            ("timeout=30s", 29_800),
            ("a=b&timeout=10s", 9800),
            ("", 800),
            ("timeout=", 800),
            ("timeout=0s", 800),
            ("timeout=31s", 800),
            ("timeout=99999999999999999999s", 800),
            ("timeout=-1s", 800),
            ("timeout=1m0s", 800),
            ("timeout=5s&timeout=10s", 800),
        ] {
            assert_eq!(time_to_answer(query).as_millis(), milliseconds, "{query}");
        }
    }
}
