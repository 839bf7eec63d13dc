//! The calls that a row matches.

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::{
    call::{Call, Operation},
    pod::{chosen_grace, disruption_reason, owner_kind},
};

/// A description of calls. Each field that is given must match. A field that is a list matches by any of its
/// items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallerMatch {
    /// Users. `*` in a name stands for any text.
    #[serde(default)]
    pub(crate) users: Vec<String>,
    /// Groups of the user.
    #[serde(default)]
    pub(crate) groups: Vec<String>,
    /// Operations.
    #[serde(default)]
    pub(crate) operations: Vec<Operation>,
    /// Kinds of the pod's controller, such as `ReplicaSet`.
    #[serde(default)]
    pub(crate) owner_kinds: Vec<String>,
    /// Reasons of the pod's condition DisruptionTarget, such as `DeletionByTaintManager`.
    #[serde(default)]
    pub(crate) disruption_reasons: Vec<String>,
    /// Range of the grace period that the caller chose. A call that leaves it to the pod does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grace_period_seconds: Option<GraceRange>,
}

/// A range of grace periods, with both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GraceRange {
    /// The shortest; 0 by default.
    #[serde(default)]
    pub(crate) min: i64,
    /// The longest; unbounded by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<i64>,
}

impl CallerMatch {
    /// Returns true when the call for that pod matches.
    pub(super) fn matches(&self, call: &Call, pod: &Pod) -> bool {
        any(&self.users, |pattern| has_pattern(&call.user.name, pattern))
            && any(&self.groups, |group| call.user.is_in_group(group))
            && any(&self.operations, |operation| *operation == call.operation)
            && any(&self.owner_kinds, |kind| owner_kind(pod) == Some(kind))
            && any(&self.disruption_reasons, |reason| disruption_reason(pod) == Some(reason))
            && self.grace_period_seconds.is_none_or(|range| {
                chosen_grace(pod, call.grace_period_seconds).is_some_and(|grace| range.contains(grace))
            })
    }
}

impl GraceRange {
    fn contains(self, seconds: i64) -> bool {
        seconds >= self.min && self.max.is_none_or(|max| seconds <= max)
    }
}

fn any<T>(allowed: &[T], is: impl Fn(&T) -> bool) -> bool {
    allowed.is_empty() || allowed.iter().any(is)
}

/// Returns true when the text has the pattern, in which `*` stands for any text.
fn has_pattern(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').map_or(("", rest), |(middle, end)| (middle, end));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some((_, after)) = text.split_once(part) else {
            return false;
        };
        text = after;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let table = [
            ("alice", "alice", true),
            ("alice", "ali", false),
            (
                "system:serviceaccount:kube-system:cluster-autoscaler",
                "system:serviceaccount:*:cluster-*",
                true,
            ),
            ("system:serviceaccount:a:b", "system:serviceaccount:*:cluster-*", false),
            ("karpenter", "*", true),
            ("karpenter", "k*r*n*r", true),
            ("karpenter", "k*r*x*r", false),
            ("ab", "ab*b", false),
            ("", "*", true),
        ];
        for (text, pattern, expected) in table {
            assert_eq!(has_pattern(text, pattern), expected, "{text} {pattern}");
        }
    }
}
