//! Warnings about the annotations of pods and of workloads, for those who write them.

use evacuation_api::{BUILT_IN_RESPONDERS, SELF_RESPONDER, manifest_problems, manifest_responders};
use serde_json::Value;

/// Maximum number of warnings about one object.
const MAX_WARNINGS: usize = 8;
/// Maximum length of a warning, in bytes. The kube-apiserver cuts longer ones.
const MAX_LENGTH: usize = 250;

/// Returns the warnings about an object. `is_served` tells whether an EvacuationResponder of its namespace
/// has that responder's name.
pub(crate) fn warnings(object: &Value, is_served: impl Fn(&str) -> bool) -> Vec<String> {
    let known = |name: &str| name == SELF_RESPONDER || BUILT_IN_RESPONDERS.contains(&name) || is_served(name);
    let unserved = manifest_responders(object).into_iter().filter(|entry| !known(&entry.name)).map(|entry| {
        format!(
            "evacuation.dev/responders: no EvacuationResponder of the namespace has the name {:?}: make sure that a \
             controller answers by it",
            entry.name
        )
    });
    manifest_problems(object).into_iter().chain(unserved).take(MAX_WARNINGS).map(shorten).collect()
}

fn shorten(mut warning: String) -> String {
    warning.truncate(warning.floor_char_boundary(MAX_LENGTH));
    warning
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(annotations: &Value) -> Vec<String> {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": annotations}});
        warnings(&pod, |name| name == "db.acme.io/served")
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_warned_of() {
        let warned = of(&json!({"evacuation.dev/responders": "["}));
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0].starts_with("metadata.annotations[evacuation.dev/responders]: is not JSON"),
            "{warned:?}"
        );
        assert_eq!(of(&json!({"evacuation.dev/responder": "[]", "acme.io/x": "["})).len(), 1);
    }

    #[test]
    fn a_responder_that_nobody_serves_is_warned_of() {
        let text = |name: &str| json!({"evacuation.dev/responders": json!([{"name": name}]).to_string()});
        for name in ["self", "surge.evacuation.dev/replacement", "db.acme.io/served"] {
            assert_eq!(of(&text(name)), Vec::<String>::new(), "{name}");
        }
        let warned = of(&text("db.acme.io/failover"));
        assert!(warned.len() == 1 && warned[0].contains("db.acme.io/failover"), "{warned:?}");
    }

    #[test]
    fn warnings_are_few_and_short() {
        let responders: Vec<_> =
            (0..16).map(|number| json!({"name": format!("a{number}.b/{}", "x".repeat(63))})).collect();
        let warned = of(&json!({"evacuation.dev/responders": json!(responders).to_string()}));
        assert_eq!(warned.len(), MAX_WARNINGS);
        assert!(warned.iter().all(|warning| warning.len() <= MAX_LENGTH));
    }
}
