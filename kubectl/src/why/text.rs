//! The page of one pod.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, ConditionType, DeadlineAction, DrainBlocker, Evacuation, EvacuationStatus, GATEWAY_ENTRY_PREFIX,
    GATEWAY_WEBHOOKS, Requester, ResponderState, ResponderStatus, from_condition_time,
};
use evacuation_protocol::{BudgetView, PodJudgement, is_finished, message_parts, state_word};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use serde_json::{Value, json};

use crate::{
    moment::{Now, WAITS, count},
    next::{Next, Step},
    plain::{full_name, help, needs_nothing, plain},
    said::{answer, remarks},
};

/// A pod with what it depends on.
pub(super) struct Facts {
    pub(super) pod: Pod,
    /// True when the pod's node was deleted.
    pub(super) node_deleted: bool,
    /// The drains that the pod holds back, by name, and how.
    pub(super) drains: Vec<(String, DrainBlocker)>,
    /// The Evacuation in progress, or else the last one.
    pub(super) evacuation: Option<Evacuation>,
    pub(super) budgets: Vec<PodDisruptionBudget>,
    pub(super) judgement: PodJudgement,
    /// The obstacle that an eviction would meet now.
    pub(super) obstacle: Option<DrainBlocker>,
}

/// Returns the text for a pod that does not exist any more.
pub(super) fn gone(pod: &str, last: &Evacuation, wide: bool, now: Now) -> String {
    let mut lines = vec![format!("pod {pod} does not exist any more")];
    lines.extend(asked(last, None, false, wide, now));
    lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
}

impl Facts {
    /// Returns the page.
    pub(super) fn render(&self, wide: bool, now: Now) -> String {
        let mut lines = vec![self.head(now)];
        let blocker = self.judgement.blocker.as_ref();
        match &self.evacuation {
            None => lines.push("Nobody asks it to move.".to_owned()),
            Some(evacuation) => {
                lines.extend(asked(evacuation, self.next(), blocker.is_some(), wide, now));
            }
        }
        lines.push("Budgets:".to_owned());
        lines.extend(self.budgets());
        match blocker {
            Some(blocker) => lines.extend(held(blocker, self.next().is_some(), now)),
            None if self.is_asked() && now.led => {
                lines.extend((!self.waits_for_an_answer()).then(|| "Held by: nothing".to_owned()));
                lines.extend(self.expected().map(|time| format!("Expected to be gone: {}", now.at(time))));
            }
            None => {}
        }
        if self.is_asked() && !now.led {
            lines.push(format!("It {WAITS}."));
        }
        if !self.is_asked() {
            for (drain, blocker) in &self.drains {
                lines.push(format!("It holds nodeevacuation {drain} back:"));
                lines.extend(held(blocker, false, now));
            }
        }
        if let Some(obstacle) = self.obstacle.as_ref().filter(|_| !self.is_asked()) {
            lines.push("An eviction now would be held back:".to_owned());
            lines.extend(held(obstacle, false, now));
        }
        lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
    }

    /// Returns the facts for programs.
    pub(super) fn object(&self) -> Value {
        let budget = |budget: &PodDisruptionBudget| {
            let view = BudgetView::of(budget, &self.pod);
            let told = |number: i32| view.state.has_numbers().then_some(number);
            json!({
                "name": view.name, "disruptionsAllowed": told(view.disruptions_allowed),
                "currentHealthy": told(view.current_healthy), "desiredHealthy": told(view.desired_healthy),
            })
        };
        let obstacle = self.obstacle.as_ref().filter(|_| !self.is_asked());
        json!({
            "pod": full_name(&self.pod), "exists": true,
            "node": self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()),
            "asked": self.is_asked(), "state": self.evacuation.as_ref().map(state_word),
            "next": self.next().map(|next| next.object(None)),
            "expected": self.expected().map(evacuation_api::Timestamp::from),
            "heldBy": self.judgement.blocker.as_ref().map(blocker_object),
            "wouldBeHeldBy": obstacle.map(blocker_object),
            "holdsBack": self.drains.iter().map(|(drain, blocker)| json!({"drain": drain, "blocker": blocker_object(blocker)})).collect::<Vec<_>>(),
            "nodeDeleted": self.node_deleted,
            "budgets": self.budgets.iter().map(budget).collect::<Vec<_>>(),
            "evacuation": self.evacuation,
        })
    }

    /// Returns the next step. A pod that terminates has none: nothing takes that back.
    fn next(&self) -> Option<Next> {
        let stays = self.pod.metadata.deletion_timestamp.is_none();
        self.evacuation.as_ref().filter(|_| stays).and_then(Next::of)
    }

    /// Returns the time by which the pod is expected to be gone. `None` if its last request gives up before.
    fn expected(&self) -> Option<DateTime<Utc>> {
        let end = self.next().filter(|next| next.step == Step::Deadline(DeadlineAction::GiveUp));
        self.judgement.expected.filter(|expected| end.is_none_or(|end| *expected < end.time))
    }

    fn is_asked(&self) -> bool {
        self.evacuation.as_ref().is_some_and(|e| !e.status.as_ref().is_some_and(is_finished))
    }

    /// Returns true while a responder is asked that has not agreed. Its own line says how far it is, also
    /// that its reply does not count.
    fn waits_for_an_answer(&self) -> bool {
        let status = self.evacuation.as_ref().and_then(|evacuation| evacuation.status.as_ref());
        let responders = status.and_then(|status| status.responders.as_deref()).unwrap_or_default();
        let waits = |responder: &ResponderStatus| {
            responder.state == ResponderState::Active && responder.answer != Some(Answer::Accept)
        };
        responders.iter().any(waits)
    }

    fn head(&self, now: Now) -> String {
        let node = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
        let end = self.pod.metadata.deletion_timestamp.as_ref().map(from_condition_time);
        let end = end.map(|end| format!(", terminating until {}", now.at(end))).unwrap_or_default();
        let deleted = if self.node_deleted { ", a node that does not exist any more" } else { "" };
        format!("pod {} on {node}{deleted}{end}", full_name(&self.pod))
    }

    fn budgets(&self) -> Vec<String> {
        if self.budgets.is_empty() {
            return vec!["  none".to_owned()];
        }
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        let line = |view: BudgetView| {
            if !view.state.has_numbers() {
                return format!("  {}", view.cause());
            }
            let healthy = count(number(view.current_healthy), "pod");
            format!(
                "  {}: allows {} now, {healthy} {} healthy and {} must be",
                view.name,
                count(number(view.disruptions_allowed), "disruption"),
                if view.current_healthy == 1 { "is" } else { "are" },
                view.desired_healthy
            )
        };
        self.budgets.iter().map(|budget| line(BudgetView::of(budget, &self.pod))).collect()
    }
}

/// Returns a blocker for programs, with its way out in a field of its own.
pub(super) fn blocker_object(blocker: &DrainBlocker) -> Value {
    let (cause, way_out) = message_parts(&blocker.message);
    json!({
        "node": blocker.node, "pod": blocker.pod, "owner": blocker.owner, "reason": blocker.reason,
        "object": blocker.object, "stuck": blocker.stuck, "since": blocker.since, "message": cause,
        "wayOut": way_out,
    })
}

/// Tells who asks, the answers, and the next step. `held` is true when another line tells what holds the pod.
fn asked(evacuation: &Evacuation, next: Option<Next>, held: bool, wide: bool, now: Now) -> Vec<String> {
    let empty = EvacuationStatus::default();
    let status = evacuation.status.as_ref().unwrap_or(&empty);
    let name = evacuation.metadata.name.as_deref().unwrap_or_default();
    let mut lines = vec![format!("Evacuation {name}: {}", state_word(evacuation))];
    let told = [ConditionType::Failed, ConditionType::Evacuated, ConditionType::Blocked];
    let told = told.into_iter().filter(|kind| wide || !held || *kind != ConditionType::Blocked);
    for condition in told.filter_map(|kind| status.true_condition(kind)) {
        lines.push(format!("  {}: {}", condition.reason, now.text(&condition.message)));
    }
    lines.extend(next.and_then(|next| next.sentence(now)).map(|next| format!("  {next}")));
    lines.push("Asked for by:".to_owned());
    for requester in &evacuation.spec.requesters {
        lines.push(request(requester, status, now));
        lines.extend(through_gateway(&requester.name));
    }
    if evacuation.spec.requesters.is_empty() {
        lines.push("  nobody any more".to_owned());
    }
    lines.push("Responders:".to_owned());
    match status.responders.as_deref() {
        None => lines.push("  not looked for yet".to_owned()),
        Some([]) => lines.push("  none: nobody is asked before the eviction".to_owned()),
        Some(all) => {
            for responder in all {
                let timeout = responder.timeout_seconds;
                let more = wide.then(|| format!("; priority {}, timeout {timeout} s", responder.priority));
                lines.push(format!("  {}{}", answer(responder, now), more.unwrap_or_default()));
            }
        }
    }
    if let Some(eviction) = status.eviction.as_ref().filter(|_| wide) {
        let attempts = count(usize::try_from(eviction.attempts).unwrap_or_default(), "attempt");
        let last =
            eviction.last_attempt_time.as_ref().map(|time| format!(", the last at {}", now.stamp(time)));
        lines.push(format!("Eviction: {attempts}{}", last.unwrap_or_default()));
    }
    lines
}

fn request(requester: &Requester, status: &EvacuationStatus, now: Now) -> String {
    let known = status.requesters.iter().find(|known| known.key() == requester.key());
    let since = known.map(|known| format!(" at {}", now.stamp(&known.time))).unwrap_or_default();
    let why = remarks(requester.reason.as_ref(), requester.message.as_ref());
    let refusal = requester.on_refusal.unwrap_or_default();
    let deadline = requester.deadline.map(|time| {
        format!("; deadline {}, then {:?}", now.at(time.time()), requester.at_deadline.unwrap_or_default())
    });
    format!(
        "  {}{since} as {}{why} (on refusal: {refusal:?}{})",
        requester.owner,
        requester.name,
        deadline.unwrap_or_default()
    )
}

/// Names the gateway's row and webhooks behind an entry, if the gateway wrote it.
fn through_gateway(entry: &str) -> Option<String> {
    let row = entry.strip_prefix(GATEWAY_ENTRY_PREFIX)?;
    Some(format!(
        "    through the gateway: row {row} of its table, ValidatingWebhookConfiguration {GATEWAY_WEBHOOKS}"
    ))
}

/// Returns the lines of a blocker. `continues` is true when a step is to come that needs no person.
fn held(blocker: &DrainBlocker, continues: bool, now: Now) -> Vec<String> {
    let (cause, _) = message_parts(&blocker.message);
    let object = blocker.object.as_ref().map(|object| format!(" by {object}")).unwrap_or_default();
    let stuck = if blocker.stuck && !continues { " (nothing changes by itself)" } else { "" };
    let since = now.since(blocker.since.0);
    let mut lines = vec![
        format!("Held{object} since {since}: {}{stuck}", blocker.reason),
        format!("  {}", now.text(cause)),
    ];
    if let Some(help) = help(&blocker.message, now) {
        lines.push(format!("What helps: {}", now.text(help)));
    } else if now.led && needs_nothing(blocker) {
        lines.push("Nothing to do.".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use evacuation_protocol::{Standing, judge};

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "u"},
            "spec": {"nodeName": "a", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    fn now() -> Now {
        Now { time: "1970-01-01T00:05:00Z".parse().unwrap(), led: true }
    }

    fn facts(evacuation: Option<Evacuation>) -> Facts {
        let (pod, surroundings) = (pod(), evacuation_protocol::Surroundings::default());
        let standing = evacuation.as_ref().map_or(Standing::Waiting, Standing::Asked);
        let judgement = judge(&surroundings.drained(&pod, standing, None), now().time);
        Facts {
            pod,
            node_deleted: false,
            drains: vec![],
            evacuation,
            budgets: vec![],
            judgement,
            obstacle: None,
        }
    }

    #[test]
    fn a_pod_that_nobody_asks_says_so() {
        let text = facts(None).render(false, now());
        assert_eq!(text, "pod shop/db-0 on a\nNobody asks it to move.\nBudgets:\n  none");
    }

    #[test]
    fn the_numbers_of_a_budget_are_told_only_when_it_was_computed() {
        let budget = |generation: i64| -> PodDisruptionBudget {
            serde_json::from_value(json!({
                "metadata": {"name": "db", "namespace": "shop", "generation": generation},
                "spec": {"maxUnavailable": 1},
                "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
                           "desiredHealthy": 2, "expectedPods": 3},
            }))
            .unwrap()
        };
        for (generation, line, healthy) in [
            (1, "db: allows 0 disruptions now, 1 pod is healthy and 2 must be", json!(1)),
            (2, "budget db was not computed since its last change", Value::Null),
        ] {
            let facts = Facts { budgets: vec![budget(generation)], ..facts(None) };
            let text = facts.render(false, now());
            assert!(text.ends_with(&format!("\nBudgets:\n  {line}")), "{text}");
            assert_eq!(facts.object()["budgets"][0]["currentHealthy"], healthy, "{line}");
        }
    }

    #[test]
    fn a_pod_that_a_drain_leaves_alone_tells_how_it_holds_the_drain_back() {
        let blocker = json!({"node": "a", "pod": "shop/db-0", "reason": "UnmanagedPod", "stuck": true,
                             "since": "1970-01-01T00:01:00Z", "message": "no controller; what helps: set it"});
        let drains = vec![("d".to_owned(), serde_json::from_value(blocker).unwrap())];
        let facts = Facts { node_deleted: true, drains, ..facts(None) };
        assert_eq!(
            facts.render(false, now()),
            "\
pod shop/db-0 on a, a node that does not exist any more
Nobody asks it to move.
Budgets:
  none
It holds nodeevacuation d back:
Held since 00:01:00Z (4 min): UnmanagedPod (nothing changes by itself)
  no controller
What helps: set it"
        );
        let object = facts.object();
        assert_eq!((&object["holdsBack"][0]["drain"], &object["nodeDeleted"]), (&json!("d"), &json!(true)));
    }

    fn refused(deadline: &Value) -> Evacuation {
        let mut refused: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "db-0-x", "namespace": "shop"},
            "spec": {
                "target": {"pod": {"name": "db-0", "uid": "u"}},
                "requesters": [{"owner": "alice", "name": "a.b/c", "reason": "KernelUpgrade", "onRefusal": "Wait",
                                "deadline": deadline, "atDeadline": "GiveUp"}],
            },
        }))
        .unwrap();
        let mut status = evacuation_protocol::begin(&refused.spec, "alice", &[], DateTime::UNIX_EPOCH);
        let responder = json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
            "activeTime": "1970-01-01T00:00:01Z", "answerTime": "1970-01-01T00:00:02Z", "answer": "Refuse",
            "message": "a backup\u{1b} runs",
        });
        status.responders = Some(vec![serde_json::from_value(responder).unwrap()]);
        refused.status = Some(status);
        refused
    }

    #[test]
    fn a_refusal_is_shown_with_its_message_and_what_helps() {
        let text = facts(Some(refused(&Value::Null))).render(false, now());
        let (text, help) = text.split_once("What helps: ").unwrap();
        assert!(help.starts_with("the responder must change its answer; or "), "{help}");
        assert_eq!(
            text,
            "\
pod shop/db-0 on a
Evacuation db-0-x: Refused
Asked for by:
  alice at 00:00:00Z (5 min ago) as a.b/c: KernelUpgrade (on refusal: Wait)
Responders:
  self answered Refuse at 00:00:02Z (4 min ago): a backup  runs
Budgets:
  none
Held by Evacuation/db-0-x since 00:00:02Z (4 min): Refused (nothing changes by itself)
  responder self refused: a backup runs
"
        );
    }

    #[test]
    fn what_failed_since_an_answer_is_shown_with_it_and_with_what_holds_the_pod() {
        let mut broken = refused(&Value::Null);
        let responders = broken.status.as_mut().and_then(|status| status.responders.as_mut()).unwrap();
        responders[0].http = serde_json::from_value(json!({"port": 80})).unwrap();
        responders[0].message = Some("a backup runs".to_owned());
        responders[0].failure = Some("its reply does not count: 500".to_owned());
        let text = facts(Some(broken)).render(false, now());
        let said = "a backup runs; since then: its reply does not count: 500";
        assert!(text.contains(&format!("self answered Refuse at 00:00:02Z (4 min ago): {said}\n")), "{text}");
        assert!(text.contains(&format!("  responder self refused: {said}\n")), "{text}");
    }

    #[test]
    fn a_deadline_is_named_by_its_act_and_is_no_promise_without_a_controller() {
        let facts = facts(Some(refused(&json!("1970-01-01T00:06:00Z"))));
        let text = facts.render(false, now());
        assert!(text.contains("\n  at 00:06:00Z (in 60 s): gives up\n"), "{text}");
        assert!(!text.contains("by itself"), "one truth: {text}");
        let text = facts.render(false, Now { led: false, ..now() });
        assert!(!text.contains("gives up") && !text.contains("What helps"), "{text}");
        assert!(text.ends_with("\nIt waits for a controller."), "{text}");
        let mut asked = facts;
        asked.judgement.blocker = None;
        let text = asked.render(false, Now { led: false, ..now() });
        assert!(text.ends_with("\nIt waits for a controller."), "{text}");

        for (expected, is_shown) in [(330, true), (900, false)] {
            asked.judgement.expected = DateTime::from_timestamp(expected, 0);
            let text = asked.render(false, now());
            assert_eq!(text.contains("Expected to be gone: "), is_shown, "given up before, at 360: {text}");
        }
        asked.pod.metadata.deletion_timestamp =
            serde_json::from_value(json!("1970-01-01T00:05:30Z")).unwrap();
        let text = asked.render(false, now());
        assert!(text.contains("Expected to be gone: ") && !text.contains("gives up"), "{text}");
    }

    #[test]
    fn nothing_holds_a_pod_only_once_its_responders_have_agreed() {
        for (answer, message, state, expected) in [
            (json!(null), json!("its reply does not count: 500"), "Active", false),
            (json!(null), json!(null), "Active", false),
            (json!("Refuse"), json!("a backup runs"), "Active", false),
            (json!("Accept"), json!(null), "Active", true),
            (json!("Accept"), json!(null), "Completed", true),
            (json!(null), json!(null), "Interrupted", true),
        ] {
            let mut asked = facts(Some(refused(&Value::Null)));
            let status = asked.evacuation.as_mut().and_then(|evacuation| evacuation.status.as_mut());
            let mut responder = json!(status.as_ref().unwrap().responders.as_ref().unwrap()[0]);
            responder["answer"] = answer.clone();
            responder["message"] = message.clone();
            responder["state"] = json!(state);
            status.unwrap().responders = Some(vec![serde_json::from_value(responder).unwrap()]);
            asked.judgement.blocker = None;
            let text = asked.render(false, now());
            assert_eq!(text.contains("Held by: nothing"), expected, "{answer} {message} {state}: {text}");
        }
    }

    #[test]
    fn the_object_for_programs_has_what_the_page_says() {
        let object = facts(Some(refused(&json!("1970-01-01T00:06:00Z")))).object();
        assert_eq!(object["next"], json!({"time": "1970-01-01T00:06:00Z", "act": "GiveUp"}));
        assert_eq!((&object["state"], &object["asked"]), (&json!("Refused"), &json!(true)));
        assert_eq!(object["heldBy"]["message"], "responder self refused: a backup runs");
        assert_eq!(object["evacuation"]["metadata"]["name"], "db-0-x");
        let wide = facts(Some(refused(&Value::Null))).render(true, now());
        assert!(wide.contains("; priority 1, timeout 60 s"), "{wide}");
    }

    #[test]
    fn an_entry_of_the_gateway_names_its_row_and_its_webhooks() {
        let named = through_gateway("gateway.evacuation.dev/deletion").unwrap();
        assert!(named.contains("row deletion") && named.contains("evacuation-gateway"), "{named}");
        assert_eq!(through_gateway("a.b/deletion"), None);
    }
}
