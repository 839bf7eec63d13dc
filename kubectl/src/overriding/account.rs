//! The answers of a pod's responders, and what follows from an override. Pure.

use evacuation_api::{Answer, Evacuation, ResponderState, ResponderStatus};
use evacuation_protocol::continues_by;

use crate::plain::plain;

/// The responders of an active Evacuation.
pub(super) struct Account<'e> {
    evacuation: &'e Evacuation,
    responders: &'e [ResponderStatus],
}

impl<'e> Account<'e> {
    pub(super) fn of(evacuation: &'e Evacuation) -> Self {
        let responders = evacuation.status.as_ref().and_then(|status| status.responders.as_deref());
        Self { evacuation, responders: responders.unwrap_or_default() }
    }

    /// Returns true when every responder is done: the eviction comes next.
    pub(super) fn all_done(&self) -> bool {
        let looked_for = self.evacuation.status.as_ref().is_some_and(|status| status.responders.is_some());
        looked_for && self.responders.iter().all(|responder| responder.state.is_done())
    }

    /// Returns a line for each responder: who was asked, and the answer.
    pub(super) fn answers(&self) -> Vec<String> {
        self.responders.iter().map(|responder| plain(&answer(responder))).collect()
    }

    /// Returns what happens after the override.
    pub(super) fn outlook(&self, namespace: &str) -> Vec<String> {
        let active = self.responders.iter().find(|responder| responder.state == ResponderState::Active);
        let waiting = self.responders.iter().find(|responder| responder.state == ResponderState::Inactive);
        let next = match waiting {
            Some(next) => format!("responder {} is asked next", next.name),
            None => "the pod is evicted within its budgets".to_owned(),
        };
        let Some(active) = active else { return vec![format!("no refusal stops it: {next}")] };
        if active.answer == Some(Answer::Refuse) {
            return vec![next];
        }
        let pod = &self.evacuation.spec.target.pod.name;
        let time = continues_by(self.evacuation)
            .map(|time| format!(" It continues by itself at {}.", time.format("%Y-%m-%dT%H:%M:%SZ")));
        vec![
            format!(
                "{} still has its time, and a refusal no longer stops it.{}",
                active.name,
                time.unwrap_or_default()
            ),
            format!("to end that time now: kubectl evacuate set pod/{pod} -n {namespace} --deadline=1s"),
        ]
    }
}

fn answer(responder: &ResponderStatus) -> String {
    let name = &responder.name;
    let said = [&responder.reason, &responder.message].into_iter().flatten();
    let said = said.fold(String::new(), |all, text| all + ": " + text);
    let at = responder.answer_time.map(|time| format!(" at {}", time.0.format("%Y-%m-%dT%H:%M:%SZ")));
    match (responder.answer, responder.active_time) {
        (Some(answer), _) => format!("{name} answered {answer:?}{}{said}", at.unwrap_or_default()),
        (None, Some(_)) => format!("{name} was asked and has not answered{said}"),
        (None, None) => format!("{name} was not asked yet"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn evacuation(responders: &Value) -> Evacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "e"}, "spec": {"target": {"pod": {"name": "db-0"}}},
            "status": {"responders": responders},
        }))
        .unwrap()
    }

    fn responder(name: &str, state: &str, answer: Option<&str>) -> Value {
        json!({"name": name, "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": state,
               "activeTime": "2026-01-01T00:00:00Z", "answer": answer, "message": "a backup\u{1b} runs"})
    }

    #[test]
    fn a_refusal_is_quoted_and_the_next_step_is_named() {
        let other = json!({"name": "db.acme.io/failover", "priority": 1, "timeoutSeconds": 60,
                           "maxDelaySeconds": 600, "state": "Inactive"});
        let refused = responder("self", "Active", Some("Refuse"));
        for (responders, next) in [
            (json!([refused]), "the pod is evicted within its budgets"),
            (json!([refused, other]), "responder db.acme.io/failover is asked next"),
        ] {
            let evacuation = evacuation(&responders);
            let account = Account::of(&evacuation);
            assert_eq!(account.answers()[0], "self answered Refuse: a backup  runs");
            assert_eq!(account.outlook("shop"), [next]);
            assert!(!account.all_done());
        }
    }

    #[test]
    fn a_responder_that_has_time_keeps_it_and_the_command_that_ends_it_is_named() {
        for answer in [None, Some("Delay")] {
            let evacuation = evacuation(&json!([responder("self", "Active", answer)]));
            let outlook = Account::of(&evacuation).outlook("shop");
            assert!(outlook[0].starts_with("self still has its time"), "{outlook:?}");
            assert!(
                outlook[1].ends_with("kubectl evacuate set pod/db-0 -n shop --deadline=1s"),
                "{outlook:?}"
            );
        }
        let done = evacuation(&json!([responder("self", "Completed", Some("Accept"))]));
        assert!(Account::of(&done).all_done());
        assert!(
            !Account::of(
                &serde_json::from_value(
                    json!({"metadata": {"name": "e"}, "spec": {"target": {"pod": {"name": "p"}}}})
                )
                .unwrap()
            )
            .all_done()
        );
    }
}
