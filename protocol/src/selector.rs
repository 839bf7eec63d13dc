//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Whether the selector picks an object with these labels. An empty selector picks everything; an operator that is
/// not known picks nothing.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let _ = (selector, labels);
    unimplemented!()
}
