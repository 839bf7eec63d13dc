//! Server-side apply of whole objects.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod fixture;

use fixture::{Object, conflicts, document, schema};
use machinery_apply::ApplyError;
use serde_json::{Value, json};

#[test]
fn an_apply_creates_the_object_and_owns_its_fields() {
    let mut object = Object::new();
    let applied = object.apply("a", json!({"title": "x", "replicas": 1})).unwrap();
    assert_eq!(applied.object, document(json!({"title": "x", "replicas": 1})));
    assert!(applied.changed);
    assert_eq!(object.owners(), ["a Apply: .spec.replicas .spec.title"]);
    assert_eq!(object.time_of("a"), Some("2020-01-01T00:01:00Z"));
}

#[test]
fn the_same_apply_again_changes_nothing_not_even_the_time() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    let before = object.live().clone();
    assert!(!object.apply("a", json!({"title": "x"})).unwrap().changed);
    assert_eq!(object.live(), &before);
}

#[test]
fn what_is_no_longer_applied_is_removed() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x", "replicas": 1, "limits": {"cpu": 1}})).unwrap();
    object.apply("a", json!({"replicas": 1})).unwrap();
    assert_eq!(object.spec(), &json!({"replicas": 1}));
    assert_eq!(object.owners(), ["a Apply: .spec.replicas"]);
}

#[test]
fn fields_of_others_stay() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    object.apply("b", json!({"replicas": 1})).unwrap();
    object.apply("a", json!({"limits": {"cpu": 1}})).unwrap();
    assert_eq!(object.spec(), &json!({"replicas": 1, "limits": {"cpu": 1}}));
}

#[test]
fn a_shared_field_goes_with_its_last_owner() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    object.apply("b", json!({"title": "x"})).unwrap();
    assert_eq!(
        object.owners(),
        ["b Apply: .spec.title", "a Apply: .spec.title"],
        "without a time comes first"
    );
    object.apply("a", json!({})).unwrap();
    assert_eq!(object.spec(), &json!({"title": "x"}));
    object.apply("b", json!({})).unwrap();
    assert_eq!(object.spec().get("title"), None);
}

#[test]
fn a_different_value_of_a_field_of_others_is_a_conflict() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x", "replicas": 1})).unwrap();
    object.update("b", json!({"title": "x", "replicas": 2}));
    let before = object.live().clone();
    let result = object.apply("c", json!({"title": "y", "replicas": 3}));
    assert_eq!(conflicts(result), [r#""a": .spec.title"#, r#""b" using example.com/v1: .spec.replicas"#]);
    assert_eq!(object.live(), &before);
}

#[test]
fn conflicts_are_reported_as_kube_apiserver_reports_them() {
    let mut object = Object::new();
    object.update("kubectl", json!({"title": "x"}));
    let error = object.apply("c", json!({"title": "y"})).unwrap_err();
    let message =
        r#"Apply failed with 1 conflict: conflict with "kubectl" using example.com/v1: .spec.title"#;
    assert_eq!(error.to_string(), message);
    assert_eq!(
        json!(error.status()),
        json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 409,
            "reason": "Conflict", "message": message,
            "details": {"causes": [{
                "reason": "FieldManagerConflict", "field": ".spec.title",
                "message": r#"conflict with "kubectl" using example.com/v1"#,
            }]},
        })
    );
    object.apply("a", json!({"replicas": 1, "limits": {"cpu": 1}})).unwrap();
    let error = object.apply("c", json!({"title": "y", "replicas": 2, "limits": {"cpu": 2}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.replicas\n- .spec.limits.cpu\n\
         conflicts with \"kubectl\" using example.com/v1:\n- .spec.title"
    );
}

#[test]
fn force_transfers_the_ownership() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x", "replicas": 1})).unwrap();
    object.force("b", json!({"title": "y"}));
    assert_eq!(object.spec(), &json!({"title": "y", "replicas": 1}));
    assert_eq!(object.owners(), ["a Apply: .spec.replicas", "b Apply: .spec.title"]);
    object.apply("a", json!({"replicas": 1})).unwrap();
    assert_eq!(object.spec(), &json!({"title": "y", "replicas": 1}), "a has nothing to remove");
}

#[test]
fn items_of_a_keyed_list_are_merged_by_their_keys() {
    let mut object = Object::new();
    object.apply("a", json!({"ports": [{"port": 80, "name": "web"}]})).unwrap();
    object
        .apply("b", json!({"ports": [{"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}))
        .unwrap();
    let ports = json!([
        {"port": 80, "name": "web"}, {"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"},
    ]);
    assert_eq!(object.spec()["ports"], ports);
    let result = object.apply("b", json!({"ports": [{"port": 80, "protocol": "TCP", "name": "x"}]}));
    assert_eq!(
        conflicts(result),
        [r#""a": .spec.ports[port=80,protocol="TCP"].name"#],
        "the default is a key"
    );
    object.apply("a", json!({"ports": []})).unwrap();
    assert_eq!(
        object.spec()["ports"],
        json!([{"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}])
    );
}

#[test]
fn items_have_the_order_of_the_applied_list_and_others_keep_their_neighbours() {
    let mut object = Object::new();
    let tags = |object: &Object| object.spec()["tags"].clone();
    object.apply("a", json!({"tags": ["1", "2", "3"]})).unwrap();
    object.apply("b", json!({"tags": ["x", "2", "1"]})).unwrap();
    assert_eq!(tags(&object), json!(["x", "2", "3", "1"]));
}

#[test]
fn nested_keyed_lists_are_merged_on_every_level() {
    let mut object = Object::new();
    object
        .apply(
            "a",
            json!({"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]}),
        )
        .unwrap();
    object.apply("b", json!({"containers": [{"name": "c", "env": [{"name": "B", "value": "2"}]}]})).unwrap();
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    assert_eq!(object.spec()["containers"], json!([{"name": "c", "image": "i", "env": env}]));
    object.apply("a", json!({"containers": [{"name": "c", "image": "i"}]})).unwrap();
    let env = json!([{"name": "B", "value": "2"}]);
    assert_eq!(object.spec()["containers"], json!([{"name": "c", "image": "i", "env": env}]));
    assert_eq!(
        object.owners()[1],
        concat!(
            r#"a Apply: .spec.containers[name="c"] .spec.containers[name="c"].image "#,
            r#".spec.containers[name="c"].name"#
        )
    );
}

#[test]
fn items_of_a_set_are_owned_one_by_one() {
    let mut object = Object::new();
    object.apply("a", json!({"tags": ["x", "y"]})).unwrap();
    object.apply("b", json!({"tags": ["y", "z"]})).unwrap();
    assert_eq!(object.spec()["tags"], json!(["x", "y", "z"]));
    object.apply("a", json!({"tags": []})).unwrap();
    assert_eq!(object.spec()["tags"], json!(["y", "z"]));
}

#[test]
fn atomic_lists_and_maps_are_owned_as_a_whole() {
    let mut object = Object::new();
    object.apply("a", json!({"args": ["x"], "selector": {"app": "x"}})).unwrap();
    assert_eq!(object.owners(), ["a Apply: .spec.args .spec.selector"]);
    let result = object.apply("b", json!({"args": ["x", "y"], "selector": {"tier": "x"}}));
    assert_eq!(conflicts(result), [r#""a": .spec.args"#, r#""a": .spec.selector"#]);
    object.force("b", json!({"args": ["y"], "selector": {"tier": "x"}}));
    assert_eq!(object.spec(), &json!({"args": ["y"], "selector": {"tier": "x"}}));
    assert_eq!(object.owners(), ["b Apply: .spec.args .spec.selector"]);
}

#[test]
fn null_is_a_value_that_can_be_owned() {
    let mut object = Object::new();
    object.apply("a", json!({"title": null, "strategy": null})).unwrap();
    assert_eq!(object.owners(), ["a Apply: .spec.strategy .spec.title"]);
    assert_eq!(object.spec(), &json!({"title": null, "strategy": null}));
    object.apply("b", json!({"strategy": {"kind": "x"}})).unwrap();
    assert_eq!(object.spec()["strategy"], json!({"kind": "x"}));
    object.force("c", json!({"strategy": null}));
    assert_eq!(object.spec()["strategy"], json!({"kind": "x"}), "null empties no struct");
}

#[test]
fn an_applied_list_with_duplicates_is_rejected() {
    let mut object = Object::new();
    for (spec, message) in [
        (json!({"tags": ["x", "x"]}), r#".spec.tags: duplicate entries for key [="x"]"#),
        (
            json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}),
            r#".spec.ports: duplicate entries for key [port=80,protocol="TCP"]"#,
        ),
        (json!({"title": 1}), ".spec.title: expected string, got 1"),
        (json!({"titel": "x"}), ".spec.titel: field not declared in schema"),
        (
            json!({"ports": [null]}),
            ".spec.ports: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"containers": [{"image": "x"}]}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key \
             fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
    ] {
        let error = object.apply("a", spec).unwrap_err();
        let start = "failed to create typed patch object (/thing; example.com/v1, Kind=Thing)";
        assert_eq!(error.to_string(), format!("{start}: {message}"));
        assert_eq!(error.code(), 500, "as kube-apiserver");
    }
}

#[test]
fn existing_duplicates_stay_until_a_manager_applies_the_item() {
    let mut object = Object::new();
    object.update("a", json!({"ports": [{"port": 80, "name": "x"}, {"port": 80, "name": "y"}, {"port": 1}]}));
    assert_eq!(
        object.owners(),
        [concat!(
            r#"a Update: .spec .spec.ports .spec.ports[port=1,protocol="TCP"] "#,
            r#".spec.ports[port=80,protocol="TCP"] .spec.ports[port=1,protocol="TCP"].port"#
        )]
    );
    object.apply("b", json!({"ports": [{"port": 2}]})).unwrap();
    assert_eq!(object.spec()["ports"].as_array().unwrap().len(), 4);
    object.force("b", json!({"ports": [{"port": 80, "name": "z"}]}));
    assert_eq!(object.spec()["ports"], json!([{"port": 80, "name": "z"}, {"port": 1}]));
}

#[test]
fn reset_fields_are_owned_by_nobody() {
    let mut object = Object::new();
    object.reset = [machinery_apply::Path::fields(&["status"])].into_iter().collect();
    let mut applied = document(json!({"title": "x"}));
    applied["status"] = json!({"phase": "Ready"});
    object.apply_document("a", &applied, false).unwrap();
    assert_eq!(object.owners(), ["a Apply: .spec.title"]);
}

#[test]
fn an_applied_document_has_the_version_of_the_request_and_no_managed_fields() {
    let mut object = Object::new();
    let mut applied = document(json!({}));
    applied["metadata"]["managedFields"] = json!([]);
    let error = object.apply_document("a", &applied, false).unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (400, "metadata.managedFields must be nil"));
    applied["apiVersion"] = "v2".into();
    let error = object.apply_document("a", &applied, false).unwrap_err();
    assert!(matches!(error, ApplyError::WrongVersion { .. }) && error.code() == 400, "{error}");
}

#[test]
fn malformed_managed_fields_of_the_live_object_are_an_error() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    object.live.as_mut().unwrap()["metadata"]["managedFields"][0]["fieldsType"] = "FieldsV2".into();
    let error = object.apply("a", json!({"title": "y"})).unwrap_err();
    let message =
        r#"failed to decode managed fields: invalid fieldsType "FieldsV2" in managed fields entry 0"#;
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_document_is_nested_128_levels_at_most() {
    let deep = |levels| (0..levels).fold(json!(1), |below, _| json!({"a": below}));
    let mut object = Object::new();
    assert!(object.apply("a", json!({"extra": deep(126)})).is_ok());
    let error = object.apply("a", json!({"extra": deep(127)})).unwrap_err();
    assert_eq!(error.to_string(), "the object is nested deeper than 128 levels");
}

#[test]
fn a_list_that_becomes_atomic_is_owned_by_the_owners_of_its_items() {
    let mut object = Object::new();
    object.apply("a", json!({"tags": ["x"], "strategy": {"kind": "x"}})).unwrap();
    object.schema = schema(&json!({
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        "strategy": {
            "type": "object", "properties": {"kind": {"type": "string"}}, "x-kubernetes-map-type": "atomic",
        },
    }));
    let result = object.apply("b", json!({"tags": ["y"]}));
    assert_eq!(conflicts(result), [r#""a": .spec.tags"#]);
    object.apply("a", json!({"tags": ["y"]})).unwrap();
    assert_eq!(object.owners(), ["a Apply: .spec.tags"]);
    assert_eq!(object.spec(), &json!({"tags": ["y"]}));
}

#[test]
fn a_struct_that_becomes_granular_keeps_its_owner() {
    let mut object = Object::new();
    object.apply("a", json!({"selector": {"app": "x"}})).unwrap();
    object.schema = schema(&json!({
        "selector": {"type": "object", "additionalProperties": {"type": "string"}},
    }));
    object.apply("b", json!({"selector": {"tier": "y"}})).unwrap();
    assert_eq!(object.spec()["selector"], json!({"app": "x", "tier": "y"}));
    object.apply("a", json!({"selector": {"app": "z"}})).unwrap();
    assert_eq!(object.spec()["selector"], json!({"app": "z", "tier": "y"}));
}

#[test]
fn managers_of_a_version_that_is_not_served_are_forgotten() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    object.live.as_mut().unwrap()["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0".into();
    object.apply("b", json!({"title": "y"})).unwrap();
    assert_eq!(object.owners(), ["b Apply: .spec.title"]);
}

#[test]
fn a_big_list_is_merged_quickly() {
    let mut object = Object::new();
    let ports = |name: &str| (0..20_000).map(|port| json!({"port": port, "name": name})).collect::<Value>();
    let begin = std::time::Instant::now();
    object.apply("a", json!({"ports": ports("x")})).unwrap();
    object.apply("a", json!({"ports": ports("y")})).unwrap();
    object.force("b", json!({"ports": ports("z")}));
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}
