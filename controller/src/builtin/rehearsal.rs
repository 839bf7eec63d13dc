//! Rehearsals: a responder says what it would answer, and does nothing to the pod.

use std::sync::Arc;

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Pod;

use super::part::Part;

/// Returns the responder's part in the rehearsal of that very pod which waits for its first answer.
pub(crate) fn awaited<'a>(
    rehearsals: &'a [Arc<Evacuation>],
    responder: &str,
    pod: Option<&Pod>,
) -> Option<Part<'a>> {
    let uid = pod?.metadata.uid.as_deref();
    let parts = rehearsals.iter().filter_map(|evacuation| Part::of(evacuation, responder));
    parts.into_iter().find(|part| part.targets(uid) && part.is_awaited() && part.responder.answer.is_none())
}

#[cfg(test)]
mod tests {
    use evacuation_api::{Answer, ResponderState};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rehearsal_is_answered_once_and_only_for_its_own_pod() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"uid": "P"}})).unwrap();
        let rehearsal = |uid: &str, answer: Option<Answer>| -> Vec<Arc<Evacuation>> {
            let responders = json!([{
                "name": "a.b/c", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60,
                "state": ResponderState::Active, "answer": answer,
            }]);
            let evacuation = json!({
                "metadata": {"name": "db-0-test"},
                "spec": {"target": {"pod": {"name": "db-0", "uid": uid}}, "rehearsal": true, "requesters": []},
                "status": {"responders": responders},
            });
            vec![Arc::new(serde_json::from_value(evacuation).unwrap())]
        };
        for (uid, answer, responder, expected) in [
            ("P", None, "a.b/c", true),
            ("P", None, "a.b/other", false),
            ("another", None, "a.b/c", false),
            ("P", Some(Answer::Delay), "a.b/c", false),
        ] {
            let found = awaited(&rehearsal(uid, answer), responder, Some(&pod)).is_some();
            assert_eq!(found, expected, "{uid} {answer:?} {responder}");
        }
        assert!(awaited(&rehearsal("P", None), "a.b/c", None).is_none(), "the pod is gone");
    }
}
