//! Facts of a namespace that the gateway's decisions depend on.

use evacuation_api::{GATEWAY_ASK_ALL, GATEWAY_ASK_LABEL, GATEWAY_COUNT_DELETIONS, GATEWAY_COUNT_LABEL};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Facts of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceFacts {
    /// True while the namespace is deleted.
    pub(crate) terminating: bool,
    /// True when pods without responders are evacuated, too.
    pub(crate) asks_all: bool,
    /// True when deletions count against budgets.
    pub(crate) counts: bool,
}

impl NamespaceFacts {
    /// Returns the facts of a namespace with that metadata.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let is = |label: &str, value: &str| {
            metadata.labels.as_ref().and_then(|labels| labels.get(label)).is_some_and(|found| found == value)
        };
        Self {
            terminating: metadata.deletion_timestamp.is_some(),
            asks_all: is(GATEWAY_ASK_LABEL, GATEWAY_ASK_ALL),
            counts: is(GATEWAY_COUNT_LABEL, GATEWAY_COUNT_DELETIONS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_namespace_opts_in_by_the_exact_value_of_a_label() {
        let of = |labels| {
            NamespaceFacts::of(&serde_json::from_value(json!({"name": "shop", "labels": labels})).unwrap())
        };
        assert_eq!(of(json!({})), NamespaceFacts::default());
        let ask = json!({"gateway.evacuation.dev/ask": "all"});
        assert_eq!(of(ask), NamespaceFacts { asks_all: true, ..NamespaceFacts::default() });
        let count = json!({"gateway.evacuation.dev/count": "deletions"});
        assert_eq!(of(count), NamespaceFacts { counts: true, ..NamespaceFacts::default() });
        let wrong = json!({"gateway.evacuation.dev/ask": "true", "gateway.evacuation.dev/count": "all"});
        assert_eq!(of(wrong), NamespaceFacts::default());
    }
}
