//! The marks of a node that a rule names.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionPattern, KeyPattern, MarkedNode, NodeEvacuationRule, NodeMarkPattern, TaintPattern,
};
use k8s_openapi::api::core::v1::Node;

use crate::{
    drain::is_own_condition,
    responders::selects,
    time::{after, told},
};

/// A mark that a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The mark in words.
    pub(super) text: String,
    /// The time at which it appeared, as the node tells it.
    pub(super) since: Option<DateTime<Utc>>,
}

/// The marks of a node that a rule names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// The marks, in the rule's order.
    pub(super) now: Vec<Mark>,
    /// Time at which a condition will have lasted long enough.
    pub(super) next: Option<DateTime<Utc>>,
    /// Of the conditions that do not tell since when they are true, and that were not seen for long enough,
    /// the first that will have been, and that time. The others are not remembered.
    pub(super) seen: Option<(Mark, DateTime<Utc>)>,
}

/// Returns the marks of a node that the rule names. A rule is made for the nodes of its selector. `known` is
/// the node's entry in the rule's status, which remembers since when a condition without a time was seen.
pub(super) fn marks_of(
    rule: &NodeEvacuationRule,
    node: &Node,
    known: Option<&MarkedNode>,
    now: DateTime<Utc>,
) -> Marks {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut marks = Marks::default();
    if rule.spec.node_selector.as_ref().is_some_and(|selector| !selects(selector, &labels)) {
        return marks;
    }
    for pattern in &rule.spec.marks {
        let Some(Seen { since, lasts }) = find(pattern, node) else { continue };
        let text = pattern.text();
        let is_timeless = since.is_none() && lasts > 0;
        let seen = || known.filter(|known| known.mark == text).map_or(now, |known| known.since.0);
        let since = if is_timeless { Some(seen()) } else { since };
        let from = since.map(|since| after(since, lasts));
        match from.filter(|from| *from > now) {
            Some(later) => {
                marks.next = crate::time::sooner(marks.next, Some(later));
                if is_timeless {
                    let seen = (Mark { text, since }, later);
                    let sooner = marks.seen.take().filter(|(_, known)| *known <= later);
                    marks.seen = Some(sooner.unwrap_or(seen));
                }
            }
            None => marks.now.push(Mark { text, since }),
        }
    }
    marks
}

/// A mark as it is on the node.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The time since which the node has it, as far as it is known.
    since: Option<DateTime<Utc>>,
    /// The seconds for which the node must have it.
    lasts: i64,
}

/// Returns the mark, if the node has it.
fn find(pattern: &NodeMarkPattern, node: &Node) -> Option<Seen> {
    let metadata = &node.metadata;
    match pattern {
        NodeMarkPattern { taint: Some(taint), .. } => find_taint(taint, node),
        NodeMarkPattern { condition: Some(condition), .. } => find_condition(condition, node),
        NodeMarkPattern { label: Some(label), .. } => find_key(label, metadata.labels.as_ref()?),
        NodeMarkPattern { annotation: Some(annotation), .. } => {
            find_key(annotation, metadata.annotations.as_ref()?)
        }
        _ => None,
    }
}

fn find_taint(pattern: &TaintPattern, node: &Node) -> Option<Seen> {
    let taints = node.spec.as_ref()?.taints.iter().flatten();
    let fits = |given: Option<&String>, value: &str| given.is_none_or(|given| given == value);
    let taint = taints.into_iter().find(|taint| {
        taint.key == pattern.key
            && fits(pattern.value.as_ref(), taint.value.as_deref().unwrap_or_default())
            && fits(pattern.effect.as_ref(), &taint.effect)
    })?;
    Some(Seen { since: told(taint.time_added.as_ref()), lasts: 0 })
}

/// Finds a condition. One that drains wrote is no mark: the drain that it opens would keep it.
fn find_condition(pattern: &ConditionPattern, node: &Node) -> Option<Seen> {
    let conditions = node.status.as_ref()?.conditions.iter().flatten();
    let known = conditions
        .into_iter()
        .find(|known| known.type_ == pattern.type_ && known.status == pattern.status())
        .filter(|known| !is_own_condition(known))?;
    let since = told(known.last_transition_time.as_ref());
    Some(Seen { since, lasts: pattern.for_seconds.unwrap_or_default() })
}

/// Finds a label or an annotation, which have no time.
fn find_key(pattern: &KeyPattern, all: &BTreeMap<String, String>) -> Option<Seen> {
    let value = all.get(&pattern.key)?;
    pattern.value.as_ref().is_none_or(|wanted| wanted == value).then(Seen::default)
}
