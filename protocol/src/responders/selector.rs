//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt};

/// Returns true when the selector picks an object with these labels. An empty selector picks every object. An
/// invalid one picks none.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_pick_as_kubernetes_does() {
        let labels: BTreeMap<_, _> =
            [("app", "db"), ("tier", "back")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let table = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "db"}}), true),
            (json!({"matchLabels": {"app": "db", "tier": "front"}}), false),
            (json!({"matchLabels": {"zone": ""}}), false),
            (expression("app", "In", &["web", "db"]), true),
            (expression("app", "In", &["web"]), false),
            (expression("zone", "In", &["a"]), false),
            (expression("app", "NotIn", &["web"]), true),
            (expression("app", "NotIn", &["db"]), false),
            (expression("zone", "NotIn", &["a"]), true),
            (expression("app", "Exists", &[]), true),
            (expression("zone", "Exists", &[]), false),
            (expression("zone", "DoesNotExist", &[]), true),
            (expression("app", "DoesNotExist", &[]), false),
            (expression("app", "Near", &["db"]), false),
            (
                json!({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
        ];
        for (selector, expected) in table {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(selects(&parsed, &labels), expected, "{selector}");
        }
    }
}
