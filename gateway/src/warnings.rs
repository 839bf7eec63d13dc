//! Warnings about the annotations of pods and of workloads, for those who write them.

use evacuation_api::{BUILT_IN_RESPONDERS, SELF_RESPONDER, manifest_problems, manifest_responders};
use serde_json::Value;

/// Maximum number of warnings about one object.
const MAX_WARNINGS: usize = 8;
/// Maximum length of an object's name in a warning, in bytes.
const MAX_NAME: usize = 63;
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
    let name = name(object);
    let problems = manifest_problems(object).into_iter().chain(unserved).take(MAX_WARNINGS);
    problems.map(|problem| shorten(format!("{name}{problem}"))).collect()
}

/// Returns the kind and the name of an object, as the beginning of a warning: `kubectl apply` prints those
/// about many objects. A long name leaves room for the problem.
fn name(object: &Value) -> String {
    let text = |path| object.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("/metadata/name").or_else(|| text("/metadata/generateName"));
    let name = name.map(|name| name.split_at(name.floor_char_boundary(MAX_NAME)).0);
    let words: Vec<_> = [text("/kind"), name].into_iter().flatten().collect();
    if words.is_empty() { String::new() } else { words.join(" ") + ": " }
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
        let metadata = json!({"name": "db-0", "annotations": annotations});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        warnings(&pod, |name| name == "db.acme.io/served")
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_warned_of() {
        let warned = of(&json!({"evacuation.dev/responders": "["}));
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(
            warned[0].starts_with("Pod db-0: metadata.annotations[evacuation.dev/responders]: is not JSON"),
            "{warned:?}"
        );
        assert_eq!(of(&json!({"evacuation.dev/responder": "[]", "acme.io/x": "["})).len(), 1);
    }

    #[test]
    fn a_copy_beside_the_annotation_of_the_template_is_not_warned_of() {
        let written = |outside: &str| {
            let template = json!({"metadata": {"annotations": {"evacuation.dev/responders": "[]"}}});
            let metadata =
                json!({"generateName": "web-", "annotations": {"evacuation.dev/responders": outside}});
            let spec = json!({"template": template});
            let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
            warnings(&job, |_| true)
        };
        assert_eq!(written("[]"), Vec::<String>::new());
        let long = json!({"kind": "Pod", "metadata": {"name": "a".repeat(253)}});
        assert_eq!((name(&long).len(), name(&json!({}))), (69, String::new()));
        let warned = written("[{}]");
        assert!(warned.len() == 1 && warned[0].starts_with("Job web-: metadata.annotations["), "{warned:?}");
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
