//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Returns true when the selector picks an object with these labels. An empty selector picks every object. A
/// requirement with an unknown operator is not met.
///
/// The selector is compared where it is: a tenant's can have a hundred thousand values, each of which would
/// be copied to parse it.
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|requirement| {
            let values = requirement.values.iter().flatten().map(String::as_str);
            is_met(&requirement.operator, &requirement.key, values, labels)
        })
}

/// A label selector in little memory: one line of text for each requirement.
///
/// A parsed selector takes ten times the memory of its text, and an object can hold a hundred thousand
/// values. This form takes less than the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedSelector(Box<str>);

impl PackedSelector {
    /// Packs a selector. `None` for one that is not valid, which picks no object.
    pub fn of(selector: &LabelSelector) -> Option<Self> {
        #[cfg(test)]
        work::PACKED.set(work::PACKED.get() + 1);
        let mut text = String::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            add(&mut text, "In", key, std::slice::from_ref(value))?;
        }
        for requirement in selector.match_expressions.iter().flatten() {
            let operator = requirement.operator.as_str();
            if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator) {
                return None;
            }
            add(&mut text, operator, &requirement.key, requirement.values.as_deref().unwrap_or_default())?;
        }
        Some(Self(text.into_boxed_str()))
    }

    /// Returns true when the selector picks an object with these labels. An empty selector picks every
    /// object.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        #[cfg(test)]
        work::COMPARED.set(work::COMPARED.get() + 1);
        self.0.lines().all(|line| {
            let mut parts = line.split(' ');
            let (operator, key) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            is_met(operator, key, parts, labels)
        })
    }

    /// Returns the size in bytes, of which a comparison reads each once at the most.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// Adds a requirement. `None` for a name or value that no label can have.
fn add(text: &mut String, operator: &str, key: &str, values: &[String]) -> Option<()> {
    text.push_str(operator);
    for part in std::iter::once(key).chain(values.iter().map(String::as_str)) {
        if part.contains(char::is_whitespace) {
            return None;
        }
        text.push(' ');
        text.push_str(part);
    }
    text.push('\n');
    Some(())
}

/// Returns true when labels meet a requirement.
fn is_met<'a>(
    operator: &str,
    key: &str,
    mut values: impl Iterator<Item = &'a str>,
    labels: &BTreeMap<String, String>,
) -> bool {
    let label = labels.get(key);
    let mut is_listed = || label.is_some_and(|label| values.any(|value| value == label));
    match operator {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// The work with packed selectors of the thread of a test.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        /// Number of selectors that were packed.
        pub(crate) static PACKED: Cell<usize> = const { Cell::new(0) };
        /// Number of comparisons with labels.
        pub(crate) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// # Attack
    ///
    /// - Attacker: a tenant with the role `edit`
    /// - Act: has selectors with very many values compared with a pod's labels, by questions that are only
    ///   tried
    /// - Promise: 8
    #[test]
    fn a_comparison_copies_no_value() {
        let values: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
        let others = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]});
        let selector: LabelSelector = serde_json::from_value(others).unwrap();
        let packed = PackedSelector::of(&selector).unwrap();
        let labels = BTreeMap::from([("app".to_owned(), "db".to_owned())]);
        let compared = allocation_counter::measure(|| {
            assert!(selects(&selector, &labels) && packed.selects(&labels));
        });
        assert_eq!(compared.count_total, 0, "{compared:?}");
    }

    #[test]
    fn selectors_pick_as_kubernetes_does() {
        let labels: BTreeMap<_, _> = [("app", "db"), ("tier", "back"), ("empty", "")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
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
            (expression("app", "In", &["", "db"]), true),
            (expression("zone", "In", &[""]), false),
            (json!({"matchLabels": {"empty": ""}}), true),
            (expression("empty", "In", &["", "x"]), true),
            (expression("empty", "In", &["x"]), false),
            (expression("app", "In", &["a b"]), false),
            (
                json!({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
        ];
        for (selector, expected) in table {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(selects(&parsed, &labels), expected, "{selector}");
            let packed = PackedSelector::of(&parsed);
            assert_eq!(packed.is_some_and(|packed| packed.selects(&labels)), expected, "packed {selector}");
        }
    }
}
