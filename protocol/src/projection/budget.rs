//! The part of a PodDisruptionBudget that is kept.

use std::collections::BTreeMap;

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::apis::meta::v1::LabelSelector};

use super::project_metadata;

/// Maximum number of labels, expressions and values in the selector of a budget. A larger one is not kept, so
/// that it selects nothing: the eviction API alone guards such a budget.
const TERMS: usize = 256;

/// Drops what no rule reads of a budget, and a selector of more than 256 labels, expressions and values. A
/// budget without a selector selects nothing.
pub fn project_budget(budget: &mut PodDisruptionBudget) {
    project_metadata(&mut budget.metadata, 0);
    if let Some(spec) = &mut budget.spec {
        spec.selector = spec.selector.take().filter(|selector| terms(selector) <= TERMS);
    }
}

/// Returns the number of labels, expressions and values.
fn terms(selector: &LabelSelector) -> usize {
    let expressions = selector.match_expressions.iter().flatten();
    let values = expressions.map(|requirement| 1 + requirement.values.as_ref().map_or(0, Vec::len));
    values.sum::<usize>() + selector.match_labels.as_ref().map_or(0, BTreeMap::len)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_keeps_a_selector_of_256_terms_and_no_larger_one() {
        for (values, is_kept) in [(255, true), (256, false)] {
            let expression = json!({"key": "app", "operator": "In", "values": vec!["v"; values]});
            let mut budget: PodDisruptionBudget = serde_json::from_value(json!({
                "metadata": {"name": "b", "annotations": {"acme.io/big": "x"}},
                "spec": {"selector": {"matchExpressions": [expression]}, "minAvailable": 1},
            }))
            .unwrap();
            project_budget(&mut budget);
            let spec = budget.spec.unwrap();
            assert_eq!(spec.selector.is_some(), is_kept, "{} terms", values + 1);
            assert!(spec.min_available.is_some() && budget.metadata.annotations.unwrap().is_empty());
        }
    }
}
