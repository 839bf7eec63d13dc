//! Cordons and their owners.
//!
//! The annotation [`CORDONED_BY_ANNOTATION`] names the drains that hold a node's cordon. It changes in the
//! same write as `spec.unschedulable`, so that it tells after any crash whose cordon it is. A cordon without
//! the annotation belongs to someone else, and stays.

use evacuation_api::{CORDONED_BY_ANNOTATION, CordonOwner};
use k8s_openapi::api::core::v1::Node;

/// State of a node's cordon, as one drain sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CordonState {
    /// The node is not cordoned.
    No,
    /// Drains hold the cordon, this one among them.
    Ours,
    /// Other drains hold the cordon.
    OtherDrains,
    /// Someone else cordoned it.
    Others,
    /// This drain holds the cordon, and someone else uncordoned the node.
    Uncordoned,
}

impl CordonState {
    /// Returns true when no cordon is missing, and nobody uncordons the node while the drain needs it.
    pub(super) fn is_settled(self) -> bool {
        matches!(self, Self::Ours | Self::Others)
    }

    pub(super) fn owner(self) -> CordonOwner {
        match self {
            // The controller itself ends the cordon of other drains, which takes nothing back.
            Self::No | Self::Uncordoned | Self::OtherDrains => CordonOwner::No,
            Self::Ours => CordonOwner::Ours,
            Self::Others => CordonOwner::Others,
        }
    }
}

/// Returns the state of a node's cordon, as the drain of that name sees it.
pub(super) fn state(node: &Node, drain: &str) -> CordonState {
    let ours = is_held(node, drain);
    match (is_cordoned(node), ours) {
        (false, true) => CordonState::Uncordoned,
        (false, false) => CordonState::No,
        (true, true) => CordonState::Ours,
        (true, false) if holders(node).is_empty() => CordonState::Others,
        (true, false) => CordonState::OtherDrains,
    }
}

/// Returns true when the drain of that name holds the node's cordon.
pub(super) fn is_held(node: &Node, drain: &str) -> bool {
    holders(node).contains(&drain)
}

/// Returns true when someone else uncordoned a node that was recorded as cordoned: by that the drain of this
/// node is taken back.
pub(super) fn is_taken_back(state: CordonState, recorded: CordonOwner) -> bool {
    state == CordonState::Uncordoned || (state == CordonState::No && recorded != CordonOwner::No)
}

/// Change of a node that cordons or releases it, in one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CordonChange {
    /// The new `spec.unschedulable`; absent when it stays.
    pub unschedulable: Option<bool>,
    /// The new value of the annotation; `None` removes it.
    pub annotation: Option<String>,
}

/// Returns the change that cordons a node for the drain of that name.
pub fn cordon(node: &Node, drain: &str) -> CordonChange {
    let mut all = holders(node);
    if !all.contains(&drain) {
        all.push(drain);
    }
    let unschedulable = (!is_cordoned(node)).then_some(true);
    CordonChange { unschedulable, annotation: Some(all.join(",")) }
}

/// Returns the change that releases a node from the drain of that name. The last one to leave uncordons it.
/// `None` when the drain does not hold it.
pub fn release(node: &Node, drain: &str) -> Option<CordonChange> {
    let mut all = holders(node);
    let before = all.len();
    all.retain(|holder| *holder != drain);
    if all.len() == before {
        return None;
    }
    let unschedulable = (all.is_empty() && is_cordoned(node)).then_some(false);
    Some(CordonChange { unschedulable, annotation: (!all.is_empty()).then(|| all.join(",")) })
}

/// Returns the change that removes the holders of a cordon that someone else took away. Otherwise they would
/// be taken for the holders of the next cordon, which can be a person's. `None` when there is none to remove.
pub fn forget_holders(node: &Node) -> Option<CordonChange> {
    let stale = !is_cordoned(node) && !holders(node).is_empty();
    stale.then_some(CordonChange { unschedulable: None, annotation: None })
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns the names of the drains that hold a node's cordon.
pub fn holders(node: &Node) -> Vec<&str> {
    let value = node.metadata.annotations.as_ref().and_then(|all| all.get(CORDONED_BY_ANNOTATION));
    value.into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(cordoned: bool, holders: Option<&str>) -> Node {
        let annotations = holders.map(|names| json!({CORDONED_BY_ANNOTATION: names}));
        let node = json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": cordoned}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn a_cordon_belongs_to_those_whom_its_annotation_names() {
        for (cordoned, holders, expected) in [
            (false, None, CordonState::No),
            (true, None, CordonState::Others),
            (true, Some("me"), CordonState::Ours),
            (true, Some("other,me"), CordonState::Ours),
            (true, Some("other"), CordonState::OtherDrains),
            (true, Some("me-too"), CordonState::OtherDrains),
            (false, Some("me"), CordonState::Uncordoned),
            (false, Some("other"), CordonState::No),
        ] {
            assert_eq!(state(&node(cordoned, holders), "me"), expected, "{cordoned} {holders:?}");
        }
    }

    #[test]
    fn the_last_drain_to_leave_uncordons_and_no_other() {
        let change = |unschedulable, annotation: Option<&str>| {
            Some(CordonChange { unschedulable, annotation: annotation.map(str::to_owned) })
        };
        for (cordoned, holders, expected) in [
            (true, Some("me"), change(Some(false), None)),
            (true, Some("me,other"), change(None, Some("other"))),
            (false, Some("me"), change(None, None)),
            (true, Some("other"), None),
            (true, None, None),
        ] {
            assert_eq!(release(&node(cordoned, holders), "me"), expected, "{cordoned} {holders:?}");
        }
    }

    #[test]
    fn the_holders_of_a_cordon_that_was_taken_away_are_forgotten() {
        let gone = Some(CordonChange { unschedulable: None, annotation: None });
        assert_eq!(forget_holders(&node(false, Some("me,other"))), gone);
        assert_eq!(forget_holders(&node(true, Some("me"))), None);
        assert_eq!(forget_holders(&node(false, None)), None);
    }

    #[test]
    fn a_drain_joins_the_cordon_of_another() {
        let joined = cordon(&node(true, Some("other")), "me");
        assert_eq!(joined, CordonChange { unschedulable: None, annotation: Some("other,me".to_owned()) });
        let first = cordon(&node(false, None), "me");
        assert_eq!(first, CordonChange { unschedulable: Some(true), annotation: Some("me".to_owned()) });
    }

    #[test]
    fn an_uncordon_by_someone_else_takes_the_drain_back() {
        assert!(is_taken_back(CordonState::Uncordoned, CordonOwner::Ours));
        assert!(is_taken_back(CordonState::No, CordonOwner::Others));
        assert!(is_taken_back(CordonState::No, CordonOwner::Ours));
        assert!(!is_taken_back(CordonState::No, CordonOwner::No), "it was not cordoned yet");
        assert!(!is_taken_back(CordonState::Others, CordonOwner::Others));
    }
}
