//! Finished Evacuations as records: the order in which they give way to new questions (rule 8).

use chrono::TimeDelta;
use evacuation_api::{DEFAULT_TTL_SECONDS_AFTER_FINISHED, Evacuation, REFRESH_REQUESTER, RecordedRequester};
use evacuation_protocol::{ACKNOWLEDGEMENT_SECONDS, asked_responders, is_finished};
use machinery_server::Removable;

/// Returns when a finished Evacuation gives way; `None` for one that has not ended.
///
/// It stays for as long as a deletion would wait for acknowledgements. A refusal is of use until its time to
/// ask again, and a cancellation until every responder that was asked has acknowledged it, for an hour at
/// most. The flow is that of the user whose entry was the first one. Entries for crash loops are a flow of
/// their own: the pods cause them.
pub(super) fn removable(evacuation: &Evacuation) -> Option<Removable> {
    let status = evacuation.status.as_ref().filter(|status| is_finished(status))?;
    let finished = status.finish_time?.0;
    let first = status.requesters.iter().min_by_key(|known| known.joined().0);
    let flow = match first {
        Some(RecordedRequester { name, .. }) if name == REFRESH_REQUESTER => REFRESH_REQUESTER,
        Some(RecordedRequester { owner, .. }) => machinery_auth::flow(owner),
        None => "",
    };
    let asked_again = status.responders.iter().flatten().filter_map(|responder| responder.retry_time).max();
    let longest = finished + TimeDelta::seconds(DEFAULT_TTL_SECONDS_AFTER_FINISHED);
    let acknowledged = asked_responders(status).iter().all(|responder| responder.cancellation_acknowledged);
    let told = if acknowledged { finished } else { longest };
    Some(Removable {
        flow: flow.to_owned(),
        from: finished + TimeDelta::seconds(ACKNOWLEDGEMENT_SECONDS),
        of_use_until: asked_again.map_or(told, |time| told.max(time.0)).min(longest),
    })
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use serde_json::{Value, json};

    use super::*;

    /// Returns the flow of a finished Evacuation, and the seconds after its end from which it gives way and
    /// until which it is of use.
    fn of(status: &Value) -> Option<(String, i64, i64)> {
        let mut object = json!({
            "metadata": {"name": "e"}, "spec": {"target": {"pod": {"name": "p"}}}, "status": status,
        });
        object["status"]["requesters"] = json!([
            {"owner": "late", "name": "a.b/c", "user": "late", "time": time(5), "joinedTime": time(2)},
            {"owner": status["owner"], "name": status["entry"], "user": "gateway", "time": time(9),
             "joinedTime": time(1), "leftTime": time(9)},
        ]);
        let removable = removable(&serde_json::from_value(object).unwrap())?;
        let seconds = |time: DateTime<Utc>| (time - at(10)).num_seconds();
        Some((removable.flow, seconds(removable.from), seconds(removable.of_use_until)))
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn time(seconds: i64) -> Value {
        json!(evacuation_api::Timestamp(at(seconds)))
    }

    #[test]
    fn a_finished_evacuation_gives_way_by_the_flow_of_its_first_requester_and_by_its_use() {
        let finished = json!({"type": "Finished", "status": "True", "reason": "Finished", "message": "",
            "lastTransitionTime": "1970-01-01T00:00:10Z"});
        let mut failed = finished.clone();
        failed["type"] = json!("Failed");
        let ended = |owner: &str, entry: &str, responders: Value| {
            json!({"owner": owner, "entry": entry, "finishTime": time(10), "conditions": [finished, failed],
                "responders": responders})
        };
        let responder = |mut fields: Value| {
            let known = json!({"name": "self", "priority": 1, "timeoutSeconds": 1, "maxDelaySeconds": 1});
            fields.as_object_mut().unwrap().extend(known.as_object().unwrap().clone());
            json!([fields])
        };
        let (account, refresh) = ("system:serviceaccount:shop:db", "refresh.evacuation.dev/crash-loop");
        let refused = responder(json!({"state": "Completed", "retryTime": time(100)}));
        let for_days = responder(json!({"state": "Completed", "retryTime": time(1_000_000)}));
        let untold = responder(json!({"state": "Canceled", "activeTime": time(3)}));
        let cases = [
            (ended(account, "a.b/c", json!([])), Some(("system:serviceaccount:shop:", 30, 0))),
            (ended("jane", "a.b/c", refused), Some(("jane", 30, 90))),
            (ended("jane", "a.b/c", for_days), Some(("jane", 30, 3600))),
            (ended("jane", "a.b/c", untold), Some(("jane", 30, 3600))),
            (ended(account, refresh, json!([])), Some((refresh, 30, 0))),
            (json!({"owner": "jane", "entry": "a.b/c"}), None),
        ];
        for (status, expected) in cases {
            let expected = expected.map(|(flow, from, until)| (flow.to_owned(), from, until));
            assert_eq!(of(&status), expected, "{status}");
        }
    }
}
