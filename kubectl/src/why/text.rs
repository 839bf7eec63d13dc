//! The page of one pod.

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{
    ConditionType, DrainBlocker, Evacuation, EvacuationStatus, GATEWAY_ENTRY_PREFIX, GATEWAY_WEBHOOKS,
    Requester, ResponderState, ResponderStatus,
};
use evacuation_protocol::{BudgetView, DrainedPod, continues_by, judge, state_word};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::plain::{full_name, plain, way_out};

/// A pod with what it depends on.
pub(super) struct Page<'a> {
    pub(super) pod: &'a Pod,
    /// The Evacuation in progress, or else the last one.
    pub(super) evacuation: Option<&'a Evacuation>,
    pub(super) seen: DrainedPod<'a>,
    /// The obstacle that an eviction would meet now.
    pub(super) obstacle: Option<DrainBlocker>,
}

impl Page<'_> {
    /// Returns the text for a pod that does not exist any more.
    pub(super) fn gone(pod: &str, last: &Evacuation) -> String {
        let mut lines = vec![format!("pod {pod} does not exist any more")];
        lines.extend(asked(last));
        lines.join("\n")
    }

    /// Returns the page.
    pub(super) fn render(&self, now: DateTime<Utc>) -> String {
        let mut lines = vec![self.head()];
        match self.evacuation {
            None => lines.push("Nobody asks it to move.".to_owned()),
            Some(evacuation) => lines.extend(asked(evacuation)),
        }
        lines.push("Budgets:".to_owned());
        lines.extend(self.budgets());
        let judgement = judge(&self.seen, now);
        match judgement.blocker {
            Some(blocker) => lines.extend(held(&blocker)),
            None if self.is_asked() => {
                lines.push("Held by: nothing".to_owned());
                lines.extend(judgement.expected.map(|time| format!("Expected to be gone: {}", stamp(time))));
            }
            None => {}
        }
        if let Some(obstacle) = self.obstacle.as_ref().filter(|_| !self.is_asked()) {
            lines.push("An eviction now would be held back:".to_owned());
            lines.extend(held(obstacle));
        }
        lines.iter().map(|line| plain(line)).collect::<Vec<_>>().join("\n")
    }

    fn is_asked(&self) -> bool {
        self.evacuation.is_some_and(|e| !e.status.as_ref().is_some_and(evacuation_protocol::is_finished))
    }

    fn head(&self) -> String {
        let node = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
        let end = self.pod.metadata.deletion_timestamp.as_ref();
        let end = end.map(|end| format!(", terminating until {}", end.0)).unwrap_or_default();
        format!("pod {} on {node}{end}", full_name(self.pod))
    }

    fn budgets(&self) -> Vec<String> {
        if self.seen.budgets.is_empty() {
            return vec!["  none".to_owned()];
        }
        let line = |view: BudgetView| {
            format!(
                "  {}: allows {} disruptions now, {} pods are healthy and {} must be",
                view.name, view.disruptions_allowed, view.current_healthy, view.desired_healthy
            )
        };
        self.seen.budgets.iter().map(|budget| line(BudgetView::of(budget))).collect()
    }
}

/// Tells who asks, and the answers.
fn asked(evacuation: &Evacuation) -> Vec<String> {
    let empty = EvacuationStatus::default();
    let status = evacuation.status.as_ref().unwrap_or(&empty);
    let mut lines = vec![format!("Evacuation {}: {}", evacuation.name_any(), state_word(evacuation))];
    let end = [ConditionType::Failed, ConditionType::Evacuated, ConditionType::Blocked];
    for condition in end.into_iter().filter_map(|kind| status.true_condition(kind)) {
        lines.push(format!("  {}: {}", condition.reason, condition.message));
    }
    lines.extend(continues_by(evacuation).map(|time| format!("  continues by itself at {}", stamp(time))));
    lines.push("Asked for by:".to_owned());
    for requester in &evacuation.spec.requesters {
        lines.push(request(requester, status));
        lines.extend(through_gateway(&requester.name));
    }
    if evacuation.spec.requesters.is_empty() {
        lines.push("  nobody any more".to_owned());
    }
    lines.push("Responders:".to_owned());
    match status.responders.as_deref() {
        None => lines.push("  not looked for yet".to_owned()),
        Some([]) => lines.push("  none: nobody is asked before the eviction".to_owned()),
        Some(all) => lines.extend(all.iter().map(answer)),
    }
    lines
}

fn request(requester: &Requester, status: &EvacuationStatus) -> String {
    let known = status.requesters.iter().find(|known| known.key() == requester.key());
    let since = known.map(|known| format!(" at {}", stamp(known.time.0))).unwrap_or_default();
    let why = remarks(requester.reason.as_ref(), requester.message.as_ref());
    let refusal = requester.on_refusal.unwrap_or_default();
    let deadline = requester.deadline.map(|time| {
        format!("; deadline {}, then {:?}", stamp(time.time()), requester.at_deadline.unwrap_or_default())
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

fn answer(responder: &ResponderStatus) -> String {
    let name = &responder.name;
    let time = responder.answer_time.map(|time| format!(" at {}", stamp(time.0))).unwrap_or_default();
    let until = responder.delay_until.map(|time| format!(" until {}", stamp(time.0))).unwrap_or_default();
    let said = remarks(responder.reason.as_ref(), responder.message.as_ref());
    let state = match responder.state {
        ResponderState::Active => String::new(),
        state => format!(", {state:?}"),
    };
    match (responder.answer, responder.active_time) {
        (Some(answer), _) => format!("  {name} answered {answer:?}{until}{time}{said}{state}"),
        (None, Some(asked)) => format!("  {name} was asked at {}, no answer{said}{state}", stamp(asked.0)),
        (None, None) => format!("  {name} was not asked yet{state}"),
    }
}

/// Returns a reason and a message, each after a colon.
fn remarks(reason: Option<&String>, message: Option<&String>) -> String {
    let texts = [reason, message].into_iter().flatten();
    texts.fold(String::new(), |all, text| all + ": " + text)
}

fn held(blocker: &DrainBlocker) -> Vec<String> {
    let (cause, way_out) = way_out(&blocker.message);
    let object = blocker.object.as_ref().map(|object| format!(" by {object}")).unwrap_or_default();
    let stuck = if blocker.stuck { " (nothing changes by itself)" } else { "" };
    let mut lines = vec![
        format!("Held{object} since {}: {}{stuck}", stamp(blocker.since.0), blocker.reason),
        format!("  {cause}"),
    ];
    lines.extend(way_out.map(|way_out| format!("What helps: {way_out}")));
    lines
}

fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use evacuation_protocol::Standing;
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "db-0", "namespace": "shop", "uid": "u"},
            "spec": {"nodeName": "a", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    }

    fn seen<'a>(pod: &'a Pod, standing: Standing<'a>) -> DrainedPod<'a> {
        DrainedPod {
            node: "a",
            pod,
            standing,
            budgets: vec![],
            unready: vec![],
            attach_failures: &[],
            node_silent_since: None,
        }
    }

    #[test]
    fn a_pod_that_nobody_asks_says_so() {
        let pod = pod();
        let page = Page { pod: &pod, evacuation: None, seen: seen(&pod, Standing::Waiting), obstacle: None };
        let text = page.render(DateTime::UNIX_EPOCH);
        assert_eq!(text, "pod shop/db-0 on a\nNobody asks it to move.\nBudgets:\n  none");
    }

    #[test]
    fn a_refusal_is_shown_with_its_message_and_what_helps() {
        let mut refused: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "db-0-x", "namespace": "shop"},
            "spec": {
                "target": {"pod": {"name": "db-0", "uid": "u"}},
                "requesters": [{"owner": "alice", "name": "a.b/c", "reason": "KernelUpgrade", "onRefusal": "Wait"}],
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
        let pod = pod();
        let page = Page {
            pod: &pod,
            evacuation: Some(&refused),
            seen: seen(&pod, Standing::Asked(&refused)),
            obstacle: None,
        };
        let text = page.render(DateTime::UNIX_EPOCH);
        for part in [
            "Evacuation db-0-x: Refused",
            "alice at 1970-01-01T00:00:00Z as a.b/c: KernelUpgrade (on refusal: Wait)",
            "self answered Refuse at 1970-01-01T00:00:02Z: a backup  runs",
            "Held by Evacuation/db-0-x since 1970-01-01T00:00:02Z: Refused (nothing changes by itself)",
            "What helps: the responder must change its answer",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn an_entry_of_the_gateway_names_its_row_and_its_webhooks() {
        let named = through_gateway("gateway.evacuation.dev/deletion").unwrap();
        assert!(named.contains("row deletion") && named.contains("evacuation-gateway"), "{named}");
        assert_eq!(through_gateway("a.b/deletion"), None);
    }
}
