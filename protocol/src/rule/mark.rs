//! The marks of a node that a rule names.

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionPattern, KeyPattern, NodeEvacuationRule, NodeMarkPattern, TaintPattern, from_condition_time,
};
use k8s_openapi::api::core::v1::Node;

use crate::{responders::selects, time::after};

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
}

/// Returns the marks of a node that the rule names. A rule is made for the nodes of its selector.
pub(super) fn marks_of(rule: &NodeEvacuationRule, node: &Node, now: DateTime<Utc>) -> Marks {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut marks = Marks::default();
    if rule.spec.node_selector.as_ref().is_some_and(|selector| !selects(selector, &labels)) {
        return marks;
    }
    for pattern in &rule.spec.marks {
        let Some((since, lasts)) = find(pattern, node) else { continue };
        let from = since.map(|since| after(since, lasts));
        match from.filter(|from| *from > now) {
            Some(later) => marks.next = crate::time::sooner(marks.next, Some(later)),
            None => marks.now.push(Mark { text: pattern.text(), since }),
        }
    }
    marks
}

/// Returns the time since which the node has the mark, as far as it is known, and the seconds for which it
/// must have it. `None` for a node without it.
fn find(pattern: &NodeMarkPattern, node: &Node) -> Option<(Option<DateTime<Utc>>, i64)> {
    match pattern {
        NodeMarkPattern { taint: Some(taint), .. } => Some((find_taint(taint, node)?, 0)),
        NodeMarkPattern { condition: Some(condition), .. } => {
            Some((find_condition(condition, node)?, condition.for_seconds.unwrap_or_default()))
        }
        NodeMarkPattern { label: Some(label), .. } => {
            has(label, node.metadata.labels.as_ref()?.get(&label.key)).then_some((None, 0))
        }
        NodeMarkPattern { annotation: Some(annotation), .. } => {
            has(annotation, node.metadata.annotations.as_ref()?.get(&annotation.key)).then_some((None, 0))
        }
        _ => None,
    }
}

fn find_taint(pattern: &TaintPattern, node: &Node) -> Option<Option<DateTime<Utc>>> {
    let taints = node.spec.as_ref()?.taints.iter().flatten();
    let fits = |given: Option<&String>, value: &str| given.is_none_or(|given| given == value);
    let taint = taints.into_iter().find(|taint| {
        taint.key == pattern.key
            && fits(pattern.value.as_ref(), taint.value.as_deref().unwrap_or_default())
            && fits(pattern.effect.as_ref(), &taint.effect)
    })?;
    Some(taint.time_added.as_ref().map(from_condition_time))
}

fn find_condition(pattern: &ConditionPattern, node: &Node) -> Option<Option<DateTime<Utc>>> {
    let conditions = node.status.as_ref()?.conditions.iter().flatten();
    let known = conditions
        .into_iter()
        .find(|known| known.type_ == pattern.type_ && known.status == pattern.status())?;
    Some(known.last_transition_time.as_ref().map(from_condition_time))
}

fn has(pattern: &KeyPattern, value: Option<&String>) -> bool {
    value.is_some_and(|value| pattern.value.as_ref().is_none_or(|wanted| wanted == value))
}
