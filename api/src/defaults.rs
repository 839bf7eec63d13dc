//! Defaults, as the schema documents them.

use crate::{DEFAULT_TIME_ZONE, DEFAULT_TTL_SECONDS_AFTER_FINISHED, DeadlineAction, Evacuation};

/// Fills in the defaults: `onRefusal` Wait, `atDeadline` where there is a deadline (Evict, in a rehearsal
/// GiveUp), a window's time zone, and the time to live.
pub fn default_evacuation(evacuation: &mut Evacuation) {
    let spec = &mut evacuation.spec;
    spec.ttl_seconds_after_finished.get_or_insert(DEFAULT_TTL_SECONDS_AFTER_FINISHED);
    let action = if spec.rehearsal { DeadlineAction::GiveUp } else { DeadlineAction::default() };
    for requester in &mut spec.requesters {
        requester.on_refusal.get_or_insert_default();
        if requester.deadline.is_some() {
            requester.at_deadline.get_or_insert(action);
        }
        if let Some(window) = &mut requester.window {
            window.time_zone.get_or_insert_with(|| DEFAULT_TIME_ZONE.to_owned());
        }
    }
}

/// Fills in the owner of every entry that names none.
pub fn default_owners(evacuation: &mut Evacuation, user: &str) {
    for requester in evacuation.spec.requesters.iter_mut().filter(|requester| requester.owner.is_empty()) {
        user.clone_into(&mut requester.owner);
    }
}

/// Fills in the immutable part that an update may leave out: the target's UID.
pub fn default_evacuation_update(evacuation: &mut Evacuation, old: &Evacuation) {
    let (pod, old_pod) = (&mut evacuation.spec.target.pod, &old.spec.target.pod);
    if pod.uid.is_none() && pod.name == old_pod.name {
        pod.uid.clone_from(&old_pod.uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeadlineAction, RefusalPolicy};

    fn evacuation(requester: &serde_json::Value) -> Evacuation {
        serde_json::from_value(serde_json::json!({
            "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": [requester]},
        }))
        .unwrap()
    }

    #[test]
    fn an_entry_that_says_nothing_waits_and_has_no_deadline_action() {
        let mut evacuation = evacuation(&serde_json::json!({"name": "a.example.com/x"}));
        default_evacuation(&mut evacuation);
        let requester = &evacuation.spec.requesters[0];
        assert_eq!(requester.on_refusal, Some(RefusalPolicy::Wait));
        assert_eq!(requester.at_deadline, None);
        assert_eq!(evacuation.spec.ttl_seconds_after_finished, Some(3600));
    }

    #[test]
    fn a_window_is_in_utc_unless_it_says_otherwise() {
        for (zone, expected) in [(None, "UTC"), (Some("Europe/Berlin"), "Europe/Berlin")] {
            let mut evacuation = evacuation(&serde_json::json!({
                "name": "a.example.com/x",
                "window": {"schedule": "@daily", "durationSeconds": 3600, "timeZone": zone},
            }));
            default_evacuation(&mut evacuation);
            let window = evacuation.spec.requesters[0].window.as_ref().unwrap();
            assert_eq!(window.time_zone.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_deadline_evicts_unless_it_says_otherwise() {
        let mut evacuation = evacuation(
            &serde_json::json!({"name": "a.example.com/x", "onRefusal": "GiveUp", "deadline": "2026-11-20T22:00:00Z"}),
        );
        default_evacuation(&mut evacuation);
        let requester = &evacuation.spec.requesters[0];
        assert_eq!(requester.on_refusal, Some(RefusalPolicy::GiveUp));
        assert_eq!(requester.at_deadline, Some(DeadlineAction::Evict));
    }

    #[test]
    fn an_update_without_the_uid_keeps_it_but_not_for_another_pod() {
        let mut old = evacuation(&serde_json::json!({"name": "a.example.com/x"}));
        old.spec.target.pod.uid = Some("u1".to_owned());
        let mut new = old.clone();
        new.spec.target.pod.uid = None;
        default_evacuation_update(&mut new, &old);
        assert_eq!(new.spec.target.pod.uid.as_deref(), Some("u1"));
        new.spec.target.pod.uid = None;
        new.spec.target.pod.name = "db-1".to_owned();
        default_evacuation_update(&mut new, &old);
        assert_eq!(new.spec.target.pod.uid, None);
    }
}
