//! Migration from client-side to server-side apply.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod fixture;

use fixture::{Object, conflicts, document};
use serde_json::{Value, json};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object that `kubectl apply` made, as it is now.
fn applied_on_the_client(configuration: Value, now: Value) -> Object {
    let mut object = Object::new();
    let mut new = document(now);
    new["metadata"]["annotations"] = json!({ANNOTATION: document(configuration).to_string()});
    object.replace("kubectl-client-side-apply", new);
    object
}

fn annotation(object: &Object) -> &str {
    object.live()["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default()
}

#[test]
fn kubectl_takes_over_what_it_applied_before() {
    let mut object = applied_on_the_client(json!({"title": "x"}), json!({"title": "x"}));
    object.apply("kubectl", json!({"title": "y"})).unwrap();
    assert_eq!(object.spec(), &json!({"title": "y"}));
    assert_eq!(object.owners()[0], "kubectl Apply: .spec.title");
}

#[test]
fn fields_that_changed_since_or_were_not_applied_are_conflicts() {
    let now = json!({"title": "changed", "replicas": 1, "args": ["x"]});
    let mut object = applied_on_the_client(json!({"title": "x", "args": ["x"]}), now);
    let result = object.apply("kubectl", json!({"title": "y", "replicas": 2, "args": ["y"]}));
    let client = r#""kubectl-client-side-apply" using example.com/v1"#;
    assert_eq!(conflicts(result), [format!("{client}: .spec.replicas"), format!("{client}: .spec.title")]);
}

#[test]
fn other_managers_do_not_migrate() {
    let mut object = applied_on_the_client(json!({"title": "x"}), json!({"title": "x"}));
    let before = annotation(&object).to_owned();
    assert_eq!(conflicts(object.apply("a", json!({"title": "y"}))).len(), 1);
    object.force("a", json!({"title": "y"}));
    assert_eq!(annotation(&object), before);
}

#[test]
fn the_annotation_follows_server_side_applies() {
    let mut object = applied_on_the_client(json!({"title": "x"}), json!({"title": "x"}));
    object.apply("kubectl", json!({"title": "<y>"})).unwrap();
    let expected = concat!(
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"thing"},"#,
        r#""spec":{"title":"\u003cy\u003e"}}"#
    );
    assert_eq!(annotation(&object), format!("{expected}\n"));
}

#[test]
fn an_annotation_that_would_be_too_large_is_removed() {
    let mut object = applied_on_the_client(json!({"title": "x"}), json!({"title": "x"}));
    object.apply("kubectl", json!({"title": "y".repeat(256 * 1024)})).unwrap();
    assert_eq!(annotation(&object), "");
}

#[test]
fn an_unusable_annotation_excuses_nothing() {
    for text in ["", "{", "[]", r#"{"apiVersion":"example.com/v0","kind":"Thing","spec":{"title":"x"}}"#] {
        let mut object = applied_on_the_client(json!({"title": "x"}), json!({"title": "x"}));
        object.live.as_mut().unwrap()["metadata"]["annotations"][ANNOTATION] = text.into();
        assert_eq!(conflicts(object.apply("kubectl", json!({"title": "y"}))).len(), 1, "{text}");
    }
}
