//! The pods of a drain in one line: how many are gone, held, silent. Pure.

use std::collections::BTreeMap;

use evacuation_api::{
    DrainConditionType, DrainPodCounts, DrainedNode, DrainedNodePhase, FailedReason, NodeEvacuationStatus,
};
use evacuation_client::End;

use crate::tracked::{Tracked, Unheard};

/// Returns the numbers of pods that are gone and of all, over all nodes.
pub(crate) fn progress(status: &NodeEvacuationStatus, pods: &[&Tracked]) -> (usize, usize) {
    if status.nodes.is_empty() {
        return (known(status.pods.gone), known(status.pods.total));
    }
    let all = status.nodes.iter().map(|node| (gone_on(node, pods), known(node.pods.total)));
    all.fold((0, 0), |(gone, total), node| (gone + node.0, total + node.1))
}

/// Returns the number of pods of a node that are gone. The watch of the pods can be ahead of the drain's
/// numbers.
pub(crate) fn gone_on(node: &DrainedNode, pods: &[&Tracked]) -> usize {
    let told = known(node.pods.gone);
    if node.phase != DrainedNodePhase::Draining {
        return told;
    }
    let seen = pods.iter().filter(|pod| pod.is_gone() && pod.node.as_ref() == Some(&node.name)).count();
    told.max(seen.min(known(node.pods.total)))
}

fn known(count: i32) -> usize {
    usize::try_from(count).unwrap_or_default()
}

/// Returns the numbers of pods in words, such as `17 gone, 1 after 60 s of silence, 3 blocked by budget
/// shop/db`. The status of the drain counts the pods that need no Evacuation, too.
pub(crate) fn summary(status: &NodeEvacuationStatus, pods: &[&Tracked]) -> String {
    let counts = &status.pods;
    let nothing_known = pods.iter().all(|pod| pod.is_gone()) && counts.total > counts.gone;
    if nothing_known || status.is_true(DrainConditionType::Drained) {
        // Nothing is known of the pods that are left but their numbers, or a drain has skipped them.
        return words(counts, silence(pods));
    }
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.is_gone()) {
        *left.entry(place(pod)).or_default() += 1;
    }
    let (gone, total) = progress(status, pods);
    let rest = total.saturating_sub(gone).saturating_sub(left.values().sum());
    let skipped = known(counts.skipped).min(rest);
    let rest = rest.saturating_sub(skipped);
    let ahead = gone.saturating_sub(known(counts.gone));
    let (terminating, blocked) = without_evacuation(counts, pods, ahead, rest);
    for (word, number) in [("skipped", skipped), ("terminating", terminating), ("blocked", blocked)] {
        if number > 0 {
            *left.entry(word.to_owned()).or_default() += number;
        }
    }
    let waiting = rest.saturating_sub(terminating).saturating_sub(blocked);
    let parts =
        silence(pods).into_iter().chain(left.into_iter().map(|(place, count)| format!("{count} {place}")));
    let waiting = (waiting > 0).then(|| format!("{waiting} not asked yet"));
    let all = std::iter::once(format!("{gone} gone")).chain(parts).chain(waiting);
    all.collect::<Vec<_>>().join(", ")
}

/// Returns the numbers of pods that terminate, and that are held back, without an Evacuation.
///
/// They were on their way before the drain, or its rules refuse them, and its numbers count them. `ahead`
/// pods are gone that these numbers do not count as gone, and `rest` pods have no Evacuation.
fn without_evacuation(
    counts: &DrainPodCounts,
    pods: &[&Tracked],
    ahead: usize,
    rest: usize,
) -> (usize, usize) {
    // A pod whose responder refused counts as refused.
    let open = |states: &[&str]| {
        let open = pods.iter().filter(|pod| !pod.is_gone() && states.contains(&pod.state));
        open.filter(|pod| place(pod) != "refused").count()
    };
    let unasked = pods.iter().filter(|pod| pod.unasked && pod.state == "Pending").count();
    let leaving = open(&["Terminating", "Evicting"]).saturating_add(unasked);
    let held = open(&["Blocked", "Failed", "Canceled", "DeletedDespiteAnswer"]);
    let (evicting, blocked) = (known(counts.evicting), known(counts.blocked));
    let seen = leaving.saturating_add(held).saturating_add(ahead);
    let unseen = evicting.saturating_add(blocked).saturating_sub(seen).min(rest);
    let terminating = evicting.saturating_sub(leaving).min(unseen);
    (terminating, unseen.saturating_sub(terminating))
}

/// Returns the numbers of the drain in words.
fn words(counts: &DrainPodCounts, silence: Vec<String>) -> String {
    let others = [
        (counts.waiting, "not asked yet"),
        (counts.asked, "asked"),
        (counts.delayed, "delayed"),
        (counts.refused, "refused"),
        (counts.evicting, "evicting"),
        (counts.blocked, "blocked"),
        (counts.skipped, "skipped"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let all = std::iter::once(format!("{} gone", counts.gone)).chain(silence).chain(others);
    all.collect::<Vec<_>>().join(", ")
}

/// Returns the numbers of pods that went without an answer.
fn silence(pods: &[&Tracked]) -> Vec<String> {
    let mut after: BTreeMap<Unheard, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_gone()) {
        if let Some(longest) = pod.unanswered.iter().map(|unanswered| unanswered.cause).max() {
            *after.entry(longest).or_default() += 1;
        }
    }
    let text = |(cause, count): (Unheard, usize)| match cause {
        Unheard::Silent(seconds) => format!("{count} after {seconds} s of silence"),
        Unheard::NoValidAnswer => format!("{count} without a valid answer"),
        Unheard::Unreachable => format!("{count} unreachable"),
        Unheard::NotAsked => format!("{count} without a running container"),
    };
    after.into_iter().map(text).collect()
}

/// Returns the state of a pod that is not gone, in words.
fn place(pod: &Tracked) -> String {
    match &pod.end {
        Some(End::Failed { reason, .. }) => {
            let is = |known: FailedReason| known.as_str() == reason;
            if is(FailedReason::Refused) || is(FailedReason::PodGroupRefused) {
                "refused".to_owned()
            } else if is(FailedReason::DeadlineGaveUp) {
                "left alone at the deadline".to_owned()
            } else {
                reason.to_lowercase()
            }
        }
        _ if pod.state == "Blocked" && !pod.blocked_by.is_empty() => {
            format!("blocked by {}", pod.blocked_by.join(" and "))
        }
        _ if pod.state == "Asking" => "asked".to_owned(),
        _ => pod.state().to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use evacuation_api::Evacuation;
    use serde_json::{Value, json};

    use super::*;

    fn of(pods: &Value) -> NodeEvacuationStatus {
        serde_json::from_value(json!({"pods": pods})).unwrap()
    }

    fn said(pods: &Value, tracked: &[Tracked]) -> String {
        summary(&of(pods), &tracked.iter().collect::<Vec<_>>())
    }

    fn tracked(status: &Value) -> Tracked {
        let evacuation: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
            "spec": {"target": {"pod": {"name": "pod-a"}}}, "status": status,
        }))
        .unwrap();
        Tracked::of(&evacuation)
    }

    fn condition(kind: &str, reason: &str) -> Value {
        json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-11-20T22:00:00Z"})
    }

    fn gone(silent: bool) -> Tracked {
        let responder = json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Interrupted",
            "activeTime": "2026-11-20T22:00:00Z", "answer": if silent { json!(null) } else { json!("Delay") },
        });
        tracked(&json!({"conditions": [condition("Evacuated", "Evicted")], "responders": [responder]}))
    }

    fn blocked() -> Tracked {
        tracked(&json!({
            "conditions": [condition("Blocked", "BudgetExhausted")], "responders": [],
            "eviction": {"blockedBy": [{"kind": "PodDisruptionBudget", "name": "db"}]},
        }))
    }

    #[test]
    fn the_summary_says_who_was_silent_and_what_blocks_the_others() {
        let mut pods = vec![gone(true), blocked(), blocked(), blocked()];
        pods.extend((0..16).map(|_| gone(false)));
        let text = said(&json!({"total": 20, "gone": 17}), &pods);
        assert_eq!(text, "17 gone, 1 after 60 s of silence, 3 blocked by budget shop/db");
    }

    #[test]
    fn a_pod_whose_app_gave_no_valid_answer_is_not_called_silent() {
        let mut broken = gone(true);
        broken.unanswered[0].cause = Unheard::NoValidAnswer;
        let text = said(&json!({"total": 2, "gone": 2}), &[gone(true), broken]);
        assert_eq!(text, "2 gone, 1 after 60 s of silence, 1 without a valid answer");
    }

    #[test]
    fn pods_that_are_left_alone_or_not_asked_count_too() {
        let refused = tracked(&json!({"conditions": [condition("Failed", "Refused")]}));
        let asked = tracked(&json!({}));
        let plain = tracked(&json!({"responders": []}));
        let text = said(&json!({"total": 10, "gone": 4, "waiting": 4}), &[refused, asked, plain]);
        assert_eq!(text, "4 gone, 1 pending, 1 refused, 1 to be evicted (no responder), 3 not asked yet");
    }

    #[test]
    fn pods_that_terminate_or_are_refused_without_an_evacuation_are_called_so() {
        let table = [
            (
                json!({"total": 4, "blocked": 1, "evicting": 2, "waiting": 1}),
                "2 terminating, 1 not asked yet",
            ),
            (json!({"total": 4, "blocked": 3, "waiting": 1}), "2 blocked, 1 not asked yet"),
            (json!({"total": 3, "blocked": 2, "evicting": 1}), "1 blocked, 1 terminating"),
            (json!({"total": 3, "blocked": 1, "waiting": 2}), "2 not asked yet"),
        ];
        for (counts, expected) in table {
            let text = said(&counts, &[blocked()]);
            let mut words: Vec<&str> = text.split(", ").collect();
            words.retain(|word| *word != "0 gone" && *word != "1 blocked by budget shop/db");
            assert_eq!(words.join(", "), expected, "{counts}");
        }
        let left_alone = tracked(&json!({"conditions": [condition("Failed", "Refused")]}));
        let text = said(&json!({"total": 2, "refused": 1, "waiting": 1}), &[left_alone]);
        assert_eq!(text, "0 gone, 1 refused, 1 not asked yet");
        // The watch of the pods is ahead of the drain's numbers.
        let mut status = of(&json!({"total": 3, "evicting": 1, "blocked": 1, "waiting": 1}));
        status.nodes = serde_json::from_value(json!([
            {"name": "a", "phase": "Draining", "pods": {"total": 3, "evicting": 1, "blocked": 1, "waiting": 1}},
        ]))
        .unwrap();
        let mut went = gone(false);
        went.node = Some("a".to_owned());
        let text = summary(&status, &[&went, &blocked()]);
        assert_eq!(text, "1 gone, 1 blocked by budget shop/db, 1 not asked yet");
    }

    #[test]
    fn a_skipped_pod_is_not_called_gone_or_not_asked() {
        let leaving = || tracked(&json!({"conditions": [condition("Blocked", "Terminating")]}));
        let table = [
            (json!({"total": 2, "gone": 1, "skipped": 1}), None, false, "1 gone, 1 skipped"),
            (
                json!({"total": 4, "gone": 1, "blocked": 1, "waiting": 1, "skipped": 1}),
                Some(blocked()),
                false,
                "1 gone, 1 blocked by budget shop/db, 1 skipped, 1 not asked yet",
            ),
            // Its Evacuation waits for its end, and the drain no longer does.
            (json!({"total": 2, "gone": 1, "skipped": 1}), Some(leaving()), true, "1 gone, 1 skipped"),
        ];
        for (counts, other, ended, expected) in table {
            let mut status = of(&counts);
            let conditions = if ended { json!([condition("Drained", "Drained")]) } else { json!([]) };
            status.conditions = serde_json::from_value(conditions).unwrap();
            let pods: Vec<_> = std::iter::once(gone(false)).chain(other).collect();
            assert_eq!(summary(&status, &pods.iter().collect::<Vec<_>>()), expected, "{counts}");
        }
    }

    #[test]
    fn without_the_evacuations_the_numbers_of_the_drain_remain() {
        let counts = json!({"total": 5, "gone": 2, "delayed": 1, "blocked": 2});
        assert_eq!(said(&counts, &[]), "2 gone, 1 delayed, 2 blocked");
    }

    #[test]
    fn the_sum_is_that_of_the_bars_also_while_the_drain_is_behind() {
        let mut status = of(&json!({"total": 6, "gone": 1}));
        status.nodes = serde_json::from_value(json!([
            {"name": "a", "phase": "Draining", "pods": {"total": 3, "gone": 1}},
            {"name": "b", "phase": "Pending", "pods": {"total": 3, "waiting": 3}},
        ]))
        .unwrap();
        let on_a = |mut pod: Tracked| {
            pod.node = Some("a".to_owned());
            pod
        };
        let pods = [on_a(gone(false)), on_a(gone(false)), on_a(blocked())];
        let pods: Vec<_> = pods.iter().collect();
        assert_eq!((gone_on(&status.nodes[0], &pods), gone_on(&status.nodes[1], &pods)), (2, 0));
        assert_eq!(progress(&status, &pods), (2, 6));
        assert_eq!(summary(&status, &pods), "2 gone, 1 blocked by budget shop/db, 3 not asked yet");
    }
}
