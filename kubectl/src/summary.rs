//! The pods of a drain in one line: how many are gone, held, silent. Pure.

use std::collections::BTreeMap;

use evacuation_api::{DrainPodCounts, FailedReason};
use evacuation_client::End;

use crate::tracked::Tracked;

/// Returns the numbers of pods in words, such as `17 gone, 1 after 60 s of silence, 3 blocked by budget
/// shop/db`.
///
/// `counts` are those of the drain: they hold the pods that need no Evacuation, too.
pub(crate) fn summary<'t>(counts: &DrainPodCounts, pods: impl IntoIterator<Item = &'t Tracked>) -> String {
    let pods: Vec<_> = pods.into_iter().collect();
    if pods.iter().all(|pod| pod.is_gone()) && counts.total > counts.gone {
        // Nothing is known of the pods that are left but their numbers.
        return words(counts, silence(&pods));
    }
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.is_gone()) {
        *left.entry(place(pod)).or_default() += 1;
    }
    let known = |count: i32| usize::try_from(count).unwrap_or_default();
    let asked: usize = left.values().sum();
    // The watch of the pods can be ahead of the drain's numbers.
    let gone = known(counts.gone).max(pods.len() - asked);
    let waiting = known(counts.total).saturating_sub(gone).saturating_sub(asked);
    let parts =
        silence(&pods).into_iter().chain(left.into_iter().map(|(place, count)| format!("{count} {place}")));
    let waiting = (waiting > 0).then(|| format!("{waiting} not asked yet"));
    let all = std::iter::once(format!("{gone} gone")).chain(parts).chain(waiting);
    all.collect::<Vec<_>>().join(", ")
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
    ];
    let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let all = std::iter::once(format!("{} gone", counts.gone)).chain(silence).chain(others);
    all.collect::<Vec<_>>().join(", ")
}

/// Returns the numbers of pods that went without an answer.
fn silence(pods: &[&Tracked]) -> Vec<String> {
    let mut after: BTreeMap<Option<i64>, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.is_gone()) {
        if let Some(longest) = pod.unanswered.iter().map(|unanswered| unanswered.silence).max() {
            *after.entry(longest).or_default() += 1;
        }
    }
    let text = |(silence, count): (Option<i64>, usize)| match silence {
        Some(seconds) => format!("{count} after {seconds} s of silence"),
        None => format!("{count} unreachable"),
    };
    after.into_iter().map(text).collect()
}

/// Returns the state of a pod that is not gone, in words.
fn place(pod: &Tracked) -> String {
    match &pod.end {
        Some(End::Failed { reason, .. }) => {
            let is = |known: FailedReason| known.as_str() == reason;
            if is(FailedReason::Refused) {
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
        _ => pod.state.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use evacuation_api::Evacuation;
    use serde_json::{Value, json};

    use super::*;

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
        let counts = DrainPodCounts { total: 20, gone: 17, ..DrainPodCounts::default() };
        let text = summary(&counts, &pods);
        assert_eq!(text, "17 gone, 1 after 60 s of silence, 3 blocked by budget shop/db");
    }

    #[test]
    fn pods_that_are_left_alone_or_not_asked_count_too() {
        let refused = tracked(&json!({"conditions": [condition("Failed", "Refused")]}));
        let asked = tracked(&json!({}));
        let counts = DrainPodCounts { total: 9, gone: 4, waiting: 4, ..DrainPodCounts::default() };
        assert_eq!(summary(&counts, [&refused, &asked]), "4 gone, 1 pending, 1 refused, 3 not asked yet");
    }

    #[test]
    fn without_the_evacuations_the_numbers_of_the_drain_remain() {
        let counts =
            DrainPodCounts { total: 5, gone: 2, delayed: 1, blocked: 2, ..DrainPodCounts::default() };
        assert_eq!(summary(&counts, []), "2 gone, 1 delayed, 2 blocked");
    }
}
