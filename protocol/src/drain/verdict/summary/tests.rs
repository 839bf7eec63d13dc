use evacuation_api::DrainVerdict::{Drained, Draining, Slow, Stuck, Waiting};

use super::*;
use crate::testing::at;

const NOW: i64 = 1000;

fn moves(count: PodCount, expected: Option<i64>) -> PodJudgement {
    PodJudgement::of(count).expected(expected.map(at))
}

fn held(pod: &str, stuck: bool, since: i64, expected: Option<i64>) -> PodJudgement {
    let blocker = DrainBlocker {
        node: "n".to_owned(),
        pod: Some(format!("shop/{pod}")),
        owner: None,
        reason: if stuck { "BudgetAllowsNone" } else { "Delayed" }.to_owned(),
        object: None,
        stuck,
        since: at(since).into(),
        message: format!("{pod} is held"),
    };
    let count = if stuck { PodCount::Blocked } else { PodCount::Delayed };
    PodJudgement { blocker: Some(blocker), ..moves(count, expected) }
}

#[test]
fn the_verdict_is_the_worst_of_the_pods_and_says_which() {
    let (asked, waiting) = (moves(PodCount::Asked, None), moves(PodCount::Waiting, None));
    let going = |end| moves(PodCount::Evicting, Some(end));
    let table: &[(&[PodJudgement], DrainVerdict, &str)] = &[
        (&[], Drained, "every pod that was to move is gone"),
        (std::slice::from_ref(&waiting), Waiting, "1 pod was not asked yet"),
        (
            &[asked.clone(), waiting.clone(), waiting.clone()],
            Draining,
            "1 pod moves, and 2 pods were not asked yet",
        ),
        (&[going(1010), going(1030)], Draining, "2 pods move; the expected end is 2024-10-04T00:17:10Z"),
        (
            &[asked.clone(), going(1061)],
            Slow,
            "the end is not known, the last grace period ends at 2024-10-04T00:17:41Z",
        ),
        (
            &[held("a", false, 5, Some(1500)), going(1030)],
            Slow,
            "until 2024-10-04T00:25:00Z, shop/a: a is held",
        ),
        (
            &[held("a", false, 5, Some(1500)), held("b", false, 9, Some(1600)), going(9999)],
            Slow,
            "until 2024-10-04T02:46:39Z, the last grace period ends at 2024-10-04T02:46:39Z",
        ),
        (
            &[held("a", false, 5, Some(1500)), held("b", false, 9, None)],
            Slow,
            "the end is not known, shop/b: b is held (and 1 more)",
        ),
        (
            &[asked, held("a", true, 5, None), held("b", false, 1, None)],
            Stuck,
            "1 pod cannot move: shop/a: a is held",
        ),
        (
            &["a", "b", "c", "d", "e", "f"].map(|pod| held(pod, true, 5, None)),
            Stuck,
            "6 pods cannot move: shop/a: a is held; also shop/b (BudgetAllowsNone), shop/c \
             (BudgetAllowsNone), shop/d (BudgetAllowsNone) and 2 more",
        ),
    ];
    for (judgements, verdict, message) in table {
        let summary = summarize(*judgements, at(NOW));
        assert_eq!((summary.verdict, summary.message.as_str()), (*verdict, *message));
    }
}

#[test]
fn a_dead_node_is_named_first_and_once_with_its_pods() {
    let dead = |pod: &str, since| {
        let mut judgement = held(pod, true, since, None);
        let blocker = judgement.blocker.as_mut().unwrap();
        blocker.reason = "NodeUnreachable".to_owned();
        blocker.message = "node n does not report; what helps: repair it".to_owned();
        judgement
    };
    let all = [held("db", true, 1, None), dead("b", 9), dead("a", 9), held("slow", false, 1, None)];
    let summary = summarize(&all, at(NOW));
    assert_eq!(
        summary.message,
        "node n does not report: 2 pods cannot move: shop/a, shop/b; also shop/db (BudgetAllowsNone); what \
         helps: repair it"
    );
    let reasons: Vec<_> = summary.blockers.iter().map(|blocker| blocker.reason.as_str()).collect();
    assert_eq!(reasons, ["NodeUnreachable", "NodeUnreachable", "BudgetAllowsNone", "Delayed"]);
    let stayed = stayed(&all).unwrap();
    assert!(stayed.starts_with("node n does not report: 2 pods did not move: shop/a, shop/b;"), "{stayed}");
}

#[test]
fn pods_that_the_same_cause_holds_are_named_together_and_what_helps_comes_last() {
    let by_budget = |pod: &str| {
        let mut judgement = held(pod, true, 5, None);
        judgement.blocker.as_mut().unwrap().message =
            "the budget allows none; what helps: raise it".to_owned();
        judgement
    };
    let mut all: Vec<_> = ["a", "b", "c", "d", "e"].map(by_budget).into();
    assert_eq!(
        summarize(&all, at(NOW)).message,
        "5 pods cannot move: shop/a, shop/b, shop/c and 2 more: the budget allows none; what helps: raise it"
    );
    all.truncate(1);
    all.push(held("z", true, 6, None));
    assert_eq!(
        summarize(&all, at(NOW)).message,
        "2 pods cannot move: shop/a: the budget allows none; also shop/z (BudgetAllowsNone); what helps: raise it"
    );
}

#[test]
fn the_expected_end_is_the_latest_and_unknown_when_one_pod_has_none() {
    let table: &[(&[Option<i64>], Option<i64>)] =
        &[(&[], None), (&[Some(5), Some(9), Some(7)], Some(9)), (&[Some(5), None], None)];
    for (times, expected) in table {
        let judgements: Vec<_> = times.iter().map(|time| moves(PodCount::Asked, *time)).collect();
        assert_eq!(summarize(&judgements, at(NOW)).expected, expected.map(at), "{times:?}");
    }
}

#[test]
fn the_next_change_is_the_soonest_that_is_to_come() {
    let changing = |seconds| PodJudgement { changes_at: Some(at(seconds)), ..moves(PodCount::Asked, None) };
    let long = moves(PodCount::Evicting, Some(NOW + 100));
    for (judgements, expected) in [
        (vec![changing(NOW + 50), changing(NOW + 20), changing(NOW)], Some(NOW + 20)),
        (vec![changing(NOW + 50), long.clone()], Some(NOW + 40)),
        (vec![moves(PodCount::Asked, None)], None),
    ] {
        let summary = summarize(&judgements, at(NOW));
        assert_eq!(summary.changes_at, expected.map(at));
    }
    assert_eq!(summarize([&long], at(NOW + 39)).verdict, Slow);
    assert_eq!(summarize([&long], at(NOW + 40)).verdict, Draining);
}

#[test]
fn the_stuck_blockers_come_first_then_the_oldest_and_the_rest_is_counted() {
    let mut judgements: Vec<_> = (0..30).map(|i| held(&format!("slow-{i:02}"), false, i, None)).collect();
    judgements.push(held("b", true, 500, None));
    judgements.push(held("a", true, 500, None));
    judgements.push(held("c", true, 400, None));
    let summary = summarize(&judgements, at(NOW));
    let names: Vec<_> = summary.blockers.iter().filter_map(|b| b.pod.as_deref()).take(4).collect();
    assert_eq!(names, ["shop/c", "shop/a", "shop/b", "shop/slow-00"]);
    assert_eq!((summary.blockers.len(), summary.blockers_omitted), (MAX_DRAIN_BLOCKERS, 13));
}

/// Every list of up to 4 judgements of 11 kinds.
#[test]
fn in_every_mixture_the_counts_add_up_and_only_a_stuck_blocker_makes_it_stuck() {
    let counts = [
        PodCount::Waiting,
        PodCount::Asked,
        PodCount::Delayed,
        PodCount::Refused,
        PodCount::Evicting,
        PodCount::Blocked,
    ];
    let mut kinds: Vec<_> = counts.iter().map(|count| moves(*count, None)).collect();
    kinds.push(moves(PodCount::Evicting, Some(NOW + 30)));
    kinds.push(moves(PodCount::Evicting, Some(NOW + 300)));
    kinds.push(held("slow", false, 1, Some(NOW + 90)));
    kinds.push(held("slow", false, 1, None));
    kinds.push(held("stuck", true, 1, None));
    let mut lists: Vec<Vec<&PodJudgement>> = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..4 {
        let end = lists.len();
        for i in from..end {
            for kind in &kinds {
                let mut list = lists[i].clone();
                list.push(kind);
                lists.push(list);
            }
        }
        from = end;
    }
    assert_eq!(lists.len(), 1 + 11 + 121 + 1331 + 14641);
    for list in lists {
        let summary = summarize(list.iter().copied(), at(NOW));
        let c = summary.counts;
        let sum = c.waiting + c.asked + c.delayed + c.refused + c.evicting + c.blocked;
        assert_eq!((usize::try_from(sum).unwrap(), c.total, c.gone), (list.len(), 0, 0));
        let stuck = summary.blockers.iter().any(|blocker| blocker.stuck);
        assert_eq!((stuck, list.is_empty()), (summary.verdict == Stuck, summary.verdict == Drained));
        let listed = summary.blockers.len() + usize::try_from(summary.blockers_omitted).unwrap();
        assert_eq!(listed, list.iter().filter(|j| j.blocker.is_some()).count());
        let backwards = summarize(list.iter().rev().copied(), at(NOW));
        assert_eq!(backwards, summary, "the order of the pods does not matter");
    }
}
