//! The answers of a pod's responders, and what follows from an override. Pure.

use evacuation_api::{Answer, Evacuation, ResponderState, ResponderStatus};

use crate::{
    moment::{Now, WAITS},
    next::Next,
    plain::plain,
    said::answer,
};

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

    /// Returns a line for each responder: when it was asked, the answer, and what has failed since.
    pub(super) fn answers(&self, now: Now) -> Vec<String> {
        self.responders.iter().map(|responder| plain(&answer(responder, now))).collect()
    }

    /// Returns what happens after the override. While no controller works, nothing does.
    pub(super) fn outlook(&self, namespace: &str, now: Now) -> Vec<String> {
        let pod = &self.evacuation.spec.target.pod.name;
        if !now.led {
            return vec![format!("pod {pod} {WAITS}")];
        }
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
        let mut lines = vec![format!("{} still has its time, and a refusal no longer stops it", active.name)];
        lines.extend(Next::of(self.evacuation).and_then(|next| next.sentence(now)));
        lines.push(format!(
            "to end that time now: kubectl evacuate set pod/{pod} -n {namespace} --deadline=1s \
             --at-deadline=evict"
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn evacuation(responders: &Value) -> Evacuation {
        let deadlines = json!([{"owner": "ann", "requester": "a.b/c", "time": "2026-01-01T00:00:40Z",
                                "action": "GiveUp", "reached": false}]);
        serde_json::from_value(json!({
            "metadata": {"name": "e"},
            "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": [{"owner": "ann", "name": "a.b/c"}]},
            "status": {"responders": responders, "policy": {"onRefusal": "Wait", "deadlines": deadlines}},
        }))
        .unwrap()
    }

    fn responder(name: &str, state: &str, more: &Value) -> Value {
        let mut responder = json!({"name": name, "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600,
               "state": state, "activeTime": "2026-01-01T00:00:00Z", "message": "a backup\u{1b} runs"});
        responder.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        responder
    }

    fn now() -> Now {
        Now { time: "2026-01-01T00:00:10Z".parse().unwrap(), led: true }
    }

    const ASKED: &str = "2026-01-01T00:00:05Z";

    #[test]
    fn a_refusal_is_quoted_and_the_next_step_is_named() {
        let other = json!({"name": "db.acme.io/failover", "priority": 1, "timeoutSeconds": 60,
                           "maxDelaySeconds": 600, "state": "Inactive"});
        let refused = responder("self", "Active", &json!({"answer": "Refuse", "answerTime": ASKED}));
        for (responders, next) in [
            (json!([refused]), "the pod is evicted within its budgets"),
            (json!([refused, other]), "responder db.acme.io/failover is asked next"),
        ] {
            let evacuation = evacuation(&responders);
            let account = Account::of(&evacuation);
            let answer = "self answered Refuse at 00:00:05Z (5 s ago): a backup  runs";
            assert_eq!(account.answers(now())[0], answer);
            assert_eq!(account.outlook("shop", now()), [next]);
            assert!(!account.all_done());
        }
    }

    #[test]
    fn what_failed_since_an_answer_is_shown_with_it() {
        let broken = json!({"answer": "Refuse", "answerTime": ASKED, "failure": "it replied 500"});
        let evacuation = evacuation(&json!([responder("self", "Active", &broken)]));
        let answer =
            "self answered Refuse at 00:00:05Z (5 s ago): a backup  runs; since then: it replied 500";
        assert_eq!(Account::of(&evacuation).answers(now()), [answer]);
    }

    #[test]
    fn a_responder_that_has_time_keeps_it_and_the_command_that_ends_it_is_named() {
        let delay = json!({"answer": "Delay", "answerTime": ASKED, "delayUntil": "2026-01-01T00:00:20Z"});
        for (answer, next) in [
            (json!({}), "at 00:00:40Z (in 30 s): gives up"),
            (delay, "at 00:00:20Z (in 10 s): the delay ends"),
        ] {
            let evacuation = evacuation(&json!([responder("self", "Active", &answer)]));
            let expected = [
                "self still has its time, and a refusal no longer stops it",
                next,
                "to end that time now: kubectl evacuate set pod/db-0 -n shop --deadline=1s --at-deadline=evict",
            ];
            assert_eq!(Account::of(&evacuation).outlook("shop", now()), expected);
        }
        let done = evacuation(&json!([responder("self", "Completed", &json!({"answer": "Accept"}))]));
        assert!(Account::of(&done).all_done());
        let unseen = json!({"metadata": {"name": "e"}, "spec": {"target": {"pod": {"name": "p"}}}});
        assert!(!Account::of(&serde_json::from_value(unseen).unwrap()).all_done());
    }

    #[test]
    fn nothing_is_promised_while_no_controller_works() {
        let delay = json!({"answer": "Delay", "answerTime": ASKED, "delayUntil": "2026-01-01T00:00:20Z"});
        let refuse = json!({"answer": "Refuse", "answerTime": ASKED});
        let one = |more: Value| json!([responder("self", "Active", &more)]);
        for responders in [json!(null), one(json!({})), one(delay), one(refuse)] {
            let evacuation = evacuation(&responders);
            let outlook = Account::of(&evacuation).outlook("shop", Now { led: false, ..now() });
            assert_eq!(outlook, ["pod db-0 waits for a controller"], "{responders}");
        }
    }
}
