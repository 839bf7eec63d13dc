//! A drain as text: a row of a table, or a page.

use evacuation_api::{
    CordonOwner, DrainPodCounts, DrainVerdict, DrainedNode, DrainedNodePhase, NodeEvacuation,
    NodeEvacuationStatus, from_condition_time,
};
use evacuation_protocol::{first_clause, message_parts};
use kube::ResourceExt;

use crate::{
    blockers::blocker_lines,
    drain_ref::{has_ended, nodes},
    moment::{Now, WAITS},
    plain::{columns, plain, short},
    statement::Statement,
    summary::{gone_on, summary},
    tracked::Tracked,
    verdict::verdict,
};

/// Number of characters of a bar.
const BAR: usize = 20;

/// Manner of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// True to draw a bar for each node.
    pub(super) bars: bool,
    /// True to show the expected end and every blocker.
    pub(super) wide: bool,
}

/// Returns the table of drains, with its head.
pub(super) fn table(drains: &[NodeEvacuation], wide: bool, now: Now) -> Vec<String> {
    let mut head = vec!["NAME", "NODES", "VERDICT", "GONE", "BLOCKED", "AGE"];
    head.extend(if wide { &["REQUESTER", "REASON", "EXPECTED END", "MESSAGE"][..] } else { &["MESSAGE"] });
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    rows.extend(drains.iter().map(|drain| row(drain, wide, now)));
    columns(&rows)
}

fn row(drain: &NodeEvacuation, wide: bool, now: Now) -> Vec<String> {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let names = match nodes(drain).as_slice() {
        [] => "<selector>".to_owned(),
        [only] => (*only).to_owned(),
        names => format!("{}/{}", status.nodes_done(), names.len()),
    };
    let age = drain.metadata.creation_timestamp.as_ref().map(|time| now.time - from_condition_time(time));
    let mut cells = vec![
        drain.name_any(),
        names,
        verdict(drain),
        format!("{}/{}", status.pods.gone, status.pods.total),
        status.held().to_string(),
        age.map(short).unwrap_or_default(),
    ];
    if wide {
        let expected = status.expected_completion.as_ref().filter(|_| now.led && !has_ended(drain));
        cells.push(status.requester.as_ref().map(|requester| requester.user.clone()).unwrap_or_default());
        cells.push(drain.spec.requester.reason.clone().unwrap_or_default());
        cells.push(expected.map(|end| now.stamp(end)).unwrap_or_default());
    }
    let message = first_clause(status.message.as_deref().unwrap_or_default());
    cells.push(if now.led || has_ended(drain) { now.text(&message) } else { WAITS.to_owned() });
    cells.into_iter().map(|cell| plain(&cell)).collect()
}

/// Returns the page of one drain, with the pods that it has asked, as far as they are known. Each pod has one
/// line, and none beside the first if only that names it.
pub(super) fn details(drain: &NodeEvacuation, pods: &[&Tracked], manner: Manner, now: Now) -> String {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let statement = Statement::of(drain, pods, now);
    let ended = has_ended(drain);
    let mut facts = vec![("Name:", drain.name_any()), ("Verdict:", statement.text)];
    facts.push(("Message:", message(drain, status, now)));
    if let Some(requester) = &status.requester {
        facts.push(("Requester:", format!("{}, at {}", requester.user, now.stamp(&requester.time))));
    }
    let asks = &drain.spec.requester;
    let why: Vec<String> = [&asks.reason, &asks.message].into_iter().flatten().cloned().collect();
    if !why.is_empty() {
        facts.push(("Reason:", why.join(": ")));
    }
    if let Some(start) = status.start_time.as_ref().filter(|_| asks.window.is_some()) {
        facts.push(("Starts:", now.stamp(start)));
    }
    if let Some(expected) = status.expected_completion.as_ref().filter(|_| manner.wide && now.led && !ended) {
        facts.push(("Expected:", now.stamp(expected)));
    }
    let known = !pods.is_empty() && !ended;
    facts.push(("Pods:", if known { summary(status, pods) } else { counts(&status.pods, ended) }));
    facts.retain(|(_, value)| !value.is_empty());
    let facts: Vec<_> = facts.into_iter().map(|(name, value)| vec![name.to_owned(), plain(&value)]).collect();
    let mut lines = columns(&facts);
    lines.push(match status.nodes.len() {
        0 | 1 => "Nodes:".to_owned(),
        all => format!("Nodes: {} of {all} done", status.nodes_done()),
    });
    let cordoned = if ended { "CORDON AT THE END" } else { "CORDON" };
    let head = ["  NAME", "STATE", cordoned, "GONE", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(status.nodes.iter().map(|node| node_row(node, status, pods, manner.bars, now)));
    lines.extend(columns(&rows));
    let named = if manner.wide { None } else { statement.pod };
    lines.extend(held(drain, named.as_deref(), now));
    lines.join("\n")
}

/// Returns the message of a drain that has ended, waits, or is slow without a blocker. That of another drain
/// in progress tells of its nodes or blockers, which have lines of their own.
fn message(drain: &NodeEvacuation, status: &NodeEvacuationStatus, now: Now) -> String {
    let told = has_ended(drain)
        || (now.led
            && status.blockers.is_empty()
            && matches!(drain.verdict(), DrainVerdict::Waiting | DrainVerdict::Slow));
    let message = status.message.as_deref().filter(|_| told);
    now.text(message.unwrap_or_default())
}

fn node_row(
    node: &DrainedNode,
    status: &NodeEvacuationStatus,
    pods: &[&Tracked],
    bars: bool,
    now: Now,
) -> Vec<String> {
    // The message of an only node is that of the drain, and that of a node in progress tells of its pods.
    let own = |text: &&str| {
        let (cause, _) = message_parts(text);
        !status.message.as_deref().is_some_and(|message| message.contains(cause))
    };
    let told = node.phase != DrainedNodePhase::Draining || (now.led && status.blockers.is_empty());
    let message = node.message.as_deref().filter(|text| told && own(text));
    vec![
        format!("  {}", node.name),
        state(node),
        cordon(node).to_owned(),
        bar(gone_on(node, pods), node.pods.total, bars),
        plain(&now.text(message.unwrap_or_default())),
    ]
}

/// Returns the lines of the blockers, but for that of the pod that is named already.
fn held(drain: &NodeEvacuation, named: Option<&str>, now: Now) -> Vec<String> {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let ended = has_ended(drain);
    let all = status.blockers.iter().filter(|blocker| named.is_none() || blocker.pod.as_deref() != named);
    let mut lines = blocker_lines(all, ended, now);
    if status.blockers_omitted > 0 {
        lines.push(format!("  and {} more", status.blockers_omitted));
    }
    if !lines.is_empty() {
        let head = match (ended, now.led) {
            (true, _) => "Blockers at the end:",
            (false, true) => "Blockers:",
            (false, false) => "Blockers when a controller last worked:",
        };
        lines.insert(0, head.to_owned());
    }
    lines
}

/// Returns the state of a node in a word: the verdict while it is drained, and its end.
fn state(node: &DrainedNode) -> String {
    match node.phase {
        DrainedNodePhase::Draining => format!("{:?}", node.verdict),
        phase => format!("{phase:?}"),
    }
}

fn cordon(node: &DrainedNode) -> &'static str {
    match node.cordoned {
        _ if !node.is_cordoned() => "no",
        CordonOwner::No => "no",
        CordonOwner::Ours => "by this drain",
        CordonOwner::Others => "by others",
    }
}

/// Returns the numbers of pods in words. Those of a drain that has ended tell where its pods were then.
fn counts(pods: &DrainPodCounts, ended: bool) -> String {
    let others = [
        (pods.waiting, "waiting"),
        (pods.asked, "asked"),
        (pods.delayed, "delayed"),
        (pods.refused, "refused"),
        (pods.evicting, "evicting"),
        (pods.blocked, "blocked"),
        (pods.skipped, "skipped"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let others: Vec<String> = others.collect();
    let gone = format!("{} of {} gone", pods.gone, pods.total);
    match (others.join(", "), ended) {
        (others, _) if others.is_empty() => gone,
        (others, false) => format!("{gone}, {others}"),
        (others, true) => format!("{gone}; at the end {others}"),
    }
}

/// Returns `17/30`, and with a bar `[###########.........] 17/30`.
fn bar(gone: usize, total: i32, bar: bool) -> String {
    let numbers = format!("{gone}/{total}");
    let total = usize::try_from(total).unwrap_or_default();
    let full = gone.saturating_mul(BAR).checked_div(total).unwrap_or(BAR).min(BAR);
    if bar { format!("[{}{}] {numbers}", "#".repeat(full), ".".repeat(BAR - full)) } else { numbers }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Now {
        Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true }
    }

    const PLAIN: Manner = Manner { bars: false, wide: false };

    fn drain() -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "creationTimestamp": "2026-11-20T22:00:00Z"},
            "spec": {"nodes": {"names": ["a", "b"]}, "requester": {"reason": "KernelUpgrade"}},
            "status": {
                "verdict": "Stuck", "message": "1 pod cannot move: shop/db-0: budget db",
                "requester": {"user": "alice", "time": "2026-11-20T22:00:00Z"},
                "pods": {"total": 30, "gone": 17, "blocked": 13},
                "nodes": [{"name": "a", "phase": "Draining", "cordoned": "Ours", "verdict": "Stuck",
                           "pods": {"total": 30, "gone": 17}, "message": "1 pod cannot move: shop/db-0"},
                          {"name": "b", "phase": "Gone", "message": "node b was deleted"}],
                "blockers": [{"node": "a", "pod": "shop/db-0", "owner": "StatefulSet/db", "stuck": true,
                              "reason": "BudgetAllowsNone", "since": "2026-11-20T22:01:00Z",
                              "message": "budget db allows none; what helps: raise maxUnavailable"}],
                "blockersOmitted": 2,
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_table_has_a_row_for_each_drain() {
        assert_eq!(
            table(&[drain()], false, now()),
            [
                "NAME   NODES   VERDICT   GONE    BLOCKED   AGE   MESSAGE",
                "d      1/2     Stuck     17/30   3         5m    1 pod cannot move: shop/db-0: budget db",
            ]
        );
        let wide = table(&[drain()], true, now());
        assert!(wide[0].contains("AGE   REQUESTER   REASON          EXPECTED END   MESSAGE"), "{wide:?}");
        assert!(wide[1].contains("5m    alice       KernelUpgrade"), "{wide:?}");
    }

    #[test]
    fn the_message_of_the_table_is_one_clause_and_the_page_has_the_rest() {
        let mut held = drain();
        let cause = "budget db allows none (maxUnavailable 0, 1 of 1 pod must be healthy)";
        let way_out = "raise it: kubectl evacuate set d --at-deadline=delete";
        let status = held.status.as_mut().unwrap();
        status.message = Some(format!("1 pod cannot move: shop/db-0: {cause}; what helps: {way_out}"));
        status.blockers[0].message = format!("{cause}; what helps: {way_out}");
        let row = table(&[held.clone()], false, now()).remove(1);
        assert!(row.ends_with("5m    1 pod cannot move: shop/db-0: budget db allows none"), "{row}");
        let page = details(&held, &[], PLAIN, now());
        assert!(page.contains(cause) && page.contains(&format!("what helps: {way_out}")), "{page}");
    }

    #[test]
    fn while_no_controller_works_no_way_out_is_named_that_does_nothing() {
        let unled = Now { led: false, ..now() };
        let row = table(&[drain()], false, unled).remove(1);
        assert!(row.ends_with("5m    waits for a controller"), "{row}");
        let page = details(&drain(), &[], PLAIN, unled);
        for part in
            ["Stuck, 17/30 gone. It waits for a controller.", "Blockers when a controller last worked:"]
        {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!page.contains("what helps"), "{page}");
    }

    #[test]
    fn the_page_has_one_line_for_each_statement_and_names_each_pod_once() {
        assert_eq!(
            details(&drain(), &[], Manner { bars: true, wide: false }, now()),
            "\
Name:        d
Verdict:     Stuck, 17/30 gone. 1 pod needs a change, named below.
Requester:   alice, at 22:00:00Z (5 min ago)
Reason:      KernelUpgrade
Pods:        17 of 30 gone, 13 blocked
Nodes: 1 of 2 done
  NAME   STATE   CORDON          GONE                           MESSAGE
  a      Stuck   by this drain   [###########.........] 17/30
  b      Gone    no              [####################] 0/0     node b was deleted
Blockers:
  pod/shop/db-0 of StatefulSet/db: BudgetAllowsNone since 22:01:00Z (4 min): budget db allows none
    what helps: raise maxUnavailable
  and 2 more"
        );
        assert!(!details(&drain(), &[], PLAIN, now()).contains('#'));
    }

    #[test]
    fn a_node_that_was_uncordoned_is_not_shown_as_cordoned() {
        for (verdict, cordoned, expected) in [
            ("Stuck", "Ours", "by this drain"),
            ("Draining", "Others", "by others"),
            ("Draining", "No", "no"),
            ("Canceled", "Ours", "no"),
            ("Canceled", "Others", "no"),
        ] {
            let node = json!({"name": "a", "phase": "Draining", "cordoned": cordoned, "verdict": verdict});
            let node: DrainedNode = serde_json::from_value(node).unwrap();
            assert_eq!(cordon(&node), expected, "{verdict} {cordoned}");
        }
    }

    #[test]
    fn a_pod_that_the_first_line_names_has_no_other_unless_the_page_is_wide() {
        let mut slow = drain();
        let status = slow.status.as_mut().unwrap();
        status.verdict = Some(evacuation_api::DrainVerdict::Slow);
        status.blockers_omitted = 0;
        let blocker = &mut status.blockers[0];
        (blocker.stuck, blocker.reason) = (false, "Delayed".to_owned());
        blocker.message = "it asked for a delay; what helps: nothing is needed, because it ends".to_owned();
        let responder = json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
            "activeTime": "2026-11-20T22:04:00Z", "answer": "Delay", "delayUntil": "2026-11-20T22:05:04Z",
            "message": "39 s left",
        });
        let evacuation = serde_json::from_value(json!({
            "metadata": {"name": "x", "namespace": "shop"}, "spec": {"target": {"pod": {"name": "db-0"}}},
            "status": {"responders": [responder]},
        }));
        let pod = Tracked::of(&evacuation.unwrap());
        let page = details(&slow, &[&pod], PLAIN, now());
        let line = "Slow, 17/30 gone. Next: 22:05:04Z (in 4 s), shop/db-0 \"39 s left\". Nothing to do.";
        assert!(page.contains(line), "{page}");
        assert_eq!(page.matches("db-0").count(), 1, "{page}");
        let wide = details(&slow, &[&pod], Manner { wide: true, ..PLAIN }, now());
        let line = "pod/shop/db-0 of StatefulSet/db: Delayed since 22:01:00Z (4 min): it asked for a delay";
        assert!(wide.contains(line) && !wide.contains("what helps"), "{wide}");
    }

    #[test]
    fn the_page_of_a_drain_that_has_ended_tells_how_it_was_then() {
        let mut ended = drain();
        let finished = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "NodesLeft", "message": "",
                   "lastTransitionTime": "2026-11-20T22:02:00Z"})
        };
        let conditions = json!([finished("Failed"), finished("Finished")]);
        let status = ended.status.as_mut().unwrap();
        status.conditions = serde_json::from_value(conditions).unwrap();
        status.message = Some("not drained: a: it was uncordoned; 17 pods are gone".to_owned());
        status.nodes[0].phase = DrainedNodePhase::Withdrawn;
        status.nodes[0].message = Some("it was uncordoned".to_owned());
        let page = details(&ended, &[], PLAIN, now());
        for part in [
            "Verdict:     Failed, 17/30 gone.",
            "17 of 30 gone; at the end 13 blocked",
            "CORDON AT THE END",
            "Blockers at the end:",
            "a      Withdrawn",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(!page.contains("what helps") && !page.contains("Stuck"), "{page}");
        assert_eq!(page.matches("uncordoned").count(), 1, "{page}");
    }
}
