//! A drain as text: a row of a table, or a page.

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{
    CordonOwner, DrainPodCounts, NodeEvacuation, NodeEvacuationStatus, Timestamp, from_condition_time,
};
use kube::ResourceExt;

use crate::{
    plain::{columns, plain, short},
    verdict::verdict,
};

/// Number of characters of a bar.
const BAR: usize = 20;

/// Returns the table of drains, with its head.
pub(super) fn table(drains: &[NodeEvacuation], now: DateTime<Utc>) -> Vec<String> {
    let head = ["NAME", "NODES", "VERDICT", "GONE", "BLOCKED", "AGE", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(drains.iter().map(|drain| row(drain, now)));
    columns(&rows)
}

fn row(drain: &NodeEvacuation, now: DateTime<Utc>) -> Vec<String> {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let names: Vec<&String> = if status.nodes.is_empty() {
        drain.spec.nodes.names.iter().collect()
    } else {
        status.nodes.iter().map(|node| &node.name).collect()
    };
    let nodes = match names.as_slice() {
        [] => "<selector>".to_owned(),
        [only] => (*only).clone(),
        names => names.len().to_string(),
    };
    let age = drain.metadata.creation_timestamp.as_ref().map(|time| now - from_condition_time(time));
    vec![
        drain.name_any(),
        nodes,
        verdict(drain, status),
        format!("{}/{}", status.pods.gone, status.pods.total),
        status.pods.blocked.to_string(),
        age.map(short).unwrap_or_default(),
        plain(status.message.as_deref().unwrap_or_default()),
    ]
}

/// Returns the page of one drain. With `bars` each node has a bar.
pub(super) fn details(drain: &NodeEvacuation, bars: bool) -> String {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let mut facts = vec![
        ("Name:", drain.name_any()),
        ("Verdict:", verdict(drain, status)),
        ("Message:", status.message.clone().unwrap_or_default()),
    ];
    if let Some(requester) = &status.requester {
        facts.push(("Requester:", format!("{}, at {}", requester.user, time(&requester.time))));
    }
    let asks = &drain.spec.requester;
    let why: Vec<String> = [&asks.reason, &asks.message].into_iter().flatten().cloned().collect();
    if !why.is_empty() {
        facts.push(("Reason:", why.join(": ")));
    }
    if let Some(start) = status.start_time.as_ref().filter(|_| asks.window.is_some()) {
        facts.push(("Starts:", time(start)));
    }
    if let Some(expected) = &status.expected_completion {
        facts.push(("Expected:", time(expected)));
    }
    facts.push(("Pods:", counts(&status.pods)));
    let facts: Vec<_> = facts.into_iter().map(|(name, value)| vec![name.to_owned(), plain(&value)]).collect();
    let mut lines = columns(&facts);
    lines.push("Nodes:".to_owned());
    let mut rows =
        vec![["  NAME", "PHASE", "CORDON", "GONE", "VERDICT", "MESSAGE"].map(str::to_owned).to_vec()];
    rows.extend(status.nodes.iter().map(|node| {
        // The message of an only node is that of the drain.
        let message = node.message.as_deref().filter(|text| Some(*text) != status.message.as_deref());
        vec![
            format!("  {}", node.name),
            format!("{:?}", node.phase),
            cordon(node.cordoned).to_owned(),
            progress(&node.pods, bars),
            format!("{:?}", node.verdict),
            plain(message.unwrap_or_default()),
        ]
    }));
    lines.extend(columns(&rows));
    if !status.blockers.is_empty() {
        lines.push("Blockers:".to_owned());
    }
    for blocker in &status.blockers {
        lines.push(format!("  {}", crate::plain::blocker(blocker)));
        let stuck = if blocker.stuck { ", and nothing changes by itself" } else { "" };
        lines.push(format!("    since {}{stuck}", time(&blocker.since)));
    }
    if status.blockers_omitted > 0 {
        lines.push(format!("  and {} more", status.blockers_omitted));
    }
    lines.join("\n")
}

fn time(time: &Timestamp) -> String {
    time.0.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn cordon(owner: CordonOwner) -> &'static str {
    match owner {
        CordonOwner::No => "no",
        CordonOwner::Ours => "by this drain",
        CordonOwner::Others => "by others",
    }
}

fn counts(pods: &DrainPodCounts) -> String {
    let others = [
        (pods.waiting, "waiting"),
        (pods.asked, "asked"),
        (pods.delayed, "delayed"),
        (pods.refused, "refused"),
        (pods.evicting, "evicting"),
        (pods.blocked, "blocked"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let all = std::iter::once(format!("{} of {} gone", pods.gone, pods.total)).chain(others);
    all.collect::<Vec<_>>().join(", ")
}

/// Returns `17/30`, and with a bar `[###########.........] 17/30`.
fn progress(pods: &DrainPodCounts, bar: bool) -> String {
    let numbers = format!("{}/{}", pods.gone, pods.total);
    let of = |count: i32| usize::try_from(count).unwrap_or_default();
    let (gone, total) = (of(pods.gone), of(pods.total));
    let full = gone.saturating_mul(BAR).checked_div(total).unwrap_or(BAR).min(BAR);
    if bar { format!("[{}{}] {numbers}", "#".repeat(full), ".".repeat(BAR - full)) } else { numbers }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drain() -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "creationTimestamp": "2026-11-20T22:00:00Z"},
            "spec": {"nodes": {"names": ["a", "b"]}, "requester": {"reason": "KernelUpgrade"}},
            "status": {
                "verdict": "Stuck", "message": "1 pod is stuck",
                "requester": {"user": "alice", "time": "2026-11-20T22:00:00Z"},
                "pods": {"total": 30, "gone": 17, "blocked": 13},
                "nodes": [{"name": "a", "phase": "Draining", "cordoned": "Ours", "verdict": "Stuck",
                           "pods": {"total": 30, "gone": 17}, "message": "1 pod is stuck"},
                          {"name": "b"}],
                "blockers": [{"node": "a", "pod": "shop/db-0", "owner": "StatefulSet/db", "stuck": true,
                              "reason": "BudgetAllowsNone", "since": "2026-11-20T22:01:00Z", "message": "budget db"}],
                "blockersOmitted": 2,
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_table_has_a_row_for_each_drain() {
        let now = "2026-11-20T22:05:00Z".parse().unwrap();
        assert_eq!(
            table(&[drain()], now),
            [
                "NAME   NODES   VERDICT   GONE    BLOCKED   AGE   MESSAGE",
                "d      2       Stuck     17/30   13        5m    1 pod is stuck",
            ]
        );
    }

    #[test]
    fn the_page_names_the_blockers_and_what_helps() {
        let page = details(&drain(), true);
        for part in [
            "Requester:   alice, at 2026-11-20T22:00:00Z",
            "Reason:      KernelUpgrade",
            "Pods:        17 of 30 gone, 13 blocked",
            "by this drain   [###########.........] 17/30   Stuck",
            "pod/shop/db-0 of StatefulSet/db: BudgetAllowsNone: budget db",
            "since 2026-11-20T22:01:00Z, and nothing changes by itself",
            "and 2 more",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!details(&drain(), false).contains('#'));
    }
}
