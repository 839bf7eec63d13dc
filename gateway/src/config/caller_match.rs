//! The calls that a row matches.

use evacuation_api::{CallerMatch, CallerRow};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    call::Call,
    pod::{chosen_grace, disruption_reason, owner_kind},
};

/// Returns true when the row is one for the call for that pod.
pub(super) fn is_row_of(row: &CallerRow, call: &Call, pod: &Pod) -> bool {
    any(&row.matches, |callers| matches(callers, call, pod))
}

/// Returns true when the description fits the call for that pod.
fn matches(callers: &CallerMatch, call: &Call, pod: &Pod) -> bool {
    any(&callers.users, |pattern| has_pattern(&call.user.name, pattern))
        && any(&callers.groups, |group| call.user.is_in_group(group))
        && any(&callers.operations, |operation| *operation == call.operation)
        && any(&callers.owner_kinds, |kind| owner_kind(pod) == Some(kind))
        && any(&callers.disruption_reasons, |reason| disruption_reason(pod) == Some(reason))
        && callers.grace_period_seconds.is_none_or(|range| {
            chosen_grace(pod, call.grace_period_seconds).is_some_and(|grace| range.contains(grace))
        })
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
