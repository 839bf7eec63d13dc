//! The summary of the pods of a node, or of a whole drain.

use chrono::{DateTime, Utc};
use evacuation_api::{DrainBlocker, DrainBlockerReason, DrainPodCounts, DrainVerdict, MAX_DRAIN_BLOCKERS};

use super::{PodCount, PodJudgement, text};
use crate::{
    drain::message::{message, message_parts},
    status::truncated,
    time::{after, sooner},
};

/// Remaining time of a grace period from which a drain counts as slow, in seconds.
const LONG_GRACE_SECONDS: i64 = 60;
/// Maximum number of stuck pods that a part of the message names.
const NAMED_PODS: usize = 3;

/// The summary of judgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The numbers of pods. `gone` and `total` stay 0: the caller knows them.
    pub counts: DrainPodCounts,
    /// The state in one word: `Stuck` exactly when a blocker is stuck, even while other pods move.
    pub verdict: DrainVerdict,
    /// The reason of the verdict.
    pub message: String,
    /// The latest of the pods' expected times. `None` when a pod has none, and when there is no pod.
    pub expected: Option<DateTime<Utc>>,
    /// At most [`MAX_DRAIN_BLOCKERS`] blockers: dead nodes first, then the stuck, then the oldest, then by
    /// node and pod.
    pub blockers: Vec<DrainBlocker>,
    /// The number of blockers that are not listed.
    pub blockers_omitted: i32,
    /// The next time at which a judgement or the verdict changes even if no object changes.
    pub changes_at: Option<DateTime<Utc>>,
}

/// Summarizes the judgements of one node or of the whole drain.
pub fn summarize<'j>(judgements: impl IntoIterator<Item = &'j PodJudgement>, now: DateTime<Utc>) -> Summary {
    let all: Vec<_> = judgements.into_iter().collect();
    let mut blockers: Vec<_> = all.iter().copied().filter(|j| j.blocker.is_some()).collect();
    blockers.sort_by_cached_key(|judgement| order(judgement));
    let omitted = blockers.len().saturating_sub(MAX_DRAIN_BLOCKERS);
    let expected =
        all.iter().map(|j| j.expected).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());

    // A grace period is not a blocker, and yet makes the drain slow when it is long.
    let in_grace = |j: &&PodJudgement| j.count == PodCount::Evicting && j.blocker.is_none();
    let grace = all.iter().copied().filter(in_grace).filter_map(|j| j.expected).max();
    let ordinary = grace.map(|end| after(end, -LONG_GRACE_SECONDS)).filter(|time| now < *time);
    let verdict = if all.is_empty() {
        DrainVerdict::Drained
    } else if blockers.iter().any(|j| is_stuck(j)) {
        DrainVerdict::Stuck
    } else if !blockers.is_empty() || ordinary.is_some() {
        DrainVerdict::Slow
    } else if all.iter().all(|j| j.count == PodCount::Waiting) {
        DrainVerdict::Waiting
    } else {
        DrainVerdict::Draining
    };
    let message = match verdict {
        DrainVerdict::Drained => "every pod that was to move is gone".to_owned(),
        DrainVerdict::Waiting => format!("{} not asked yet", was_or_were(all.len())),
        DrainVerdict::Draining => moving(&all, expected),
        DrainVerdict::Slow => slow(&blockers, expected, grace),
        DrainVerdict::Stuck => stuck(&blockers, "cannot move"),
        // Judgements know no end but that no pod is left.
        DrainVerdict::Failed | DrainVerdict::Canceled => String::new(),
    };
    let due = all.iter().filter_map(|j| j.changes_at).filter(|time| now < *time).min();
    Summary {
        counts: counts(&all),
        verdict,
        message: truncated(&message),
        expected,
        blockers: blockers.iter().take(MAX_DRAIN_BLOCKERS).filter_map(|j| j.blocker.clone()).collect(),
        blockers_omitted: i32::try_from(omitted).unwrap_or(i32::MAX),
        changes_at: sooner(due, ordinary),
    }
}

/// Returns the reason why the drain of a node failed: the pods that stayed, in the past tense. `None` when
/// nothing held one.
pub(in crate::drain) fn stayed(judgements: &[PodJudgement]) -> Option<String> {
    let mut blockers: Vec<_> = judgements.iter().filter(|j| is_stuck(j)).collect();
    blockers.sort_by_cached_key(|judgement| order(judgement));
    (!blockers.is_empty()).then(|| truncated(&stuck(&blockers, "did not move")))
}

fn is_stuck(judgement: &PodJudgement) -> bool {
    judgement.blocker.as_ref().is_some_and(|blocker| blocker.stuck)
}

/// By rank, then the oldest, then by node and pod.
fn order(judgement: &PodJudgement) -> Option<impl Ord + use<>> {
    let blocker = judgement.blocker.as_ref()?;
    Some((rank(blocker), blocker.since, blocker.node.clone(), blocker.pod.clone()))
}

/// Returns the rank of a blocker: dead nodes first, which can be the cause of others, then the stuck ones.
pub(in crate::drain) fn rank(blocker: &DrainBlocker) -> u8 {
    match blocker.stuck {
        true if is_dead_node(blocker) => 0,
        true => 1,
        false => 2,
    }
}

fn is_dead_node(blocker: &DrainBlocker) -> bool {
    blocker.reason == DrainBlockerReason::NodeUnreachable.as_str()
}

fn counts(all: &[&PodJudgement]) -> DrainPodCounts {
    let mut counts = DrainPodCounts::default();
    for judgement in all {
        let count = match judgement.count {
            PodCount::Waiting => &mut counts.waiting,
            PodCount::Asked => &mut counts.asked,
            PodCount::Delayed => &mut counts.delayed,
            PodCount::Refused => &mut counts.refused,
            PodCount::Evicting => &mut counts.evicting,
            PodCount::Blocked => &mut counts.blocked,
        };
        *count = count.saturating_add(1);
    }
    counts
}

fn was_or_were(number: usize) -> String {
    format!("{} {}", text::pods(number), if number == 1 { "was" } else { "were" })
}

fn moving(all: &[&PodJudgement], expected: Option<DateTime<Utc>>) -> String {
    let waiting = all.iter().filter(|j| j.count == PodCount::Waiting).count();
    let moving = all.len().saturating_sub(waiting);
    let verb = if moving == 1 { "moves" } else { "move" };
    let unasked = match waiting {
        0 => String::new(),
        waiting => format!(", and {} not asked yet", was_or_were(waiting)),
    };
    let end = expected.map(|end| format!("; the expected end is {}", text::time(end))).unwrap_or_default();
    format!("{} {verb}{unasked}{end}", text::pods(moving))
}

/// The basis of a slow drain is the blocker that lasts longest, or else the oldest whose end is unknown.
fn slow(blockers: &[&PodJudgement], expected: Option<DateTime<Utc>>, grace: Option<DateTime<Utc>>) -> String {
    let unknown = blockers.iter().find(|j| j.expected.is_none());
    let basis = unknown.or_else(|| blockers.iter().max_by_key(|j| j.expected));
    let end = match expected {
        Some(end) => format!("until {}", text::time(end)),
        None => "the end is not known".to_owned(),
    };
    match basis.and_then(|j| j.blocker.as_ref().filter(|_| j.expected.is_none() || j.expected >= grace)) {
        Some(blocker) => {
            let more = match blockers.len().saturating_sub(1) {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let (cause, help) = message_parts(&blocker.message);
            message(&format!("{end}, {}: {cause}{more}", place(blocker)), help)
        }
        None => format!("{end}, the last grace period ends at {}", grace.map(text::time).unwrap_or_default()),
    }
}

fn stuck(blockers: &[&PodJudgement], verb: &str) -> String {
    let stuck: Vec<_> = blockers.iter().filter(|j| is_stuck(j)).filter_map(|j| j.blocker.as_ref()).collect();
    let Some(first) = stuck.first() else { return String::new() };
    // Pods that the same cause holds are named together.
    let is_same = |b: &&DrainBlocker| (&b.reason, &b.message) == (&first.reason, &first.message);
    let (same, others): (Vec<&DrainBlocker>, Vec<_>) = stuck.iter().copied().partition(is_same);
    let places = listed(same.iter().map(|b| place(b).to_owned()));
    let also = match others.as_slice() {
        [] => String::new(),
        others => format!("; also {}", listed(others.iter().map(|b| format!("{} ({})", place(b), b.reason)))),
    };
    let (cause, help) = message_parts(&first.message);
    let text = if is_dead_node(first) {
        format!("{cause}: {} {verb}: {places}{also}", text::pods(same.len()))
    } else {
        format!("{} {verb}: {places}: {cause}{also}", text::pods(stuck.len()))
    };
    message(&text, help)
}

/// Returns the first of some places, and the number of the others.
fn listed(places: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = places.collect();
    let named = all.iter().take(NAMED_PODS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED_PODS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Returns the pod of a blocker, or its node.
fn place(blocker: &DrainBlocker) -> &str {
    blocker.pod.as_deref().unwrap_or(&blocker.node)
}

#[cfg(test)]
mod tests;
