//! Ownership after updates.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod fixture;

use fixture::{Object, conflicts, document};
use machinery_apply::Path;
use serde_json::json;

#[test]
fn a_creation_is_owned_but_for_the_identity_of_the_object() {
    let mut object = Object::new();
    let mut new = document(json!({"title": "x"}));
    new["metadata"]["labels"] = json!({"app": "x"});
    object.replace("a", new);
    let owned = "a Update: .spec .metadata.labels .metadata.labels.app .spec.title";
    assert_eq!(object.owners(), [owned]);
}

#[test]
fn an_update_takes_over_the_fields_that_it_changes() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x", "replicas": 1})).unwrap();
    object.update("b", json!({"title": "x", "replicas": 2}));
    assert_eq!(object.owners(), ["a Apply: .spec.title", "b Update: .spec.replicas"]);
    let result = object.apply("a", json!({"title": "x", "replicas": 1}));
    assert_eq!(conflicts(result), [r#""b" using example.com/v1: .spec.replicas"#]);
}

#[test]
fn a_field_that_is_removed_belongs_to_nobody() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x", "replicas": 1})).unwrap();
    object.update("b", json!({"title": "x"}));
    assert_eq!(object.owners(), ["a Apply: .spec.title"]);
}

#[test]
fn an_update_that_changes_nothing_leaves_no_trace() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    let before = object.live().clone();
    object.update("b", json!({"title": "x"}));
    assert_eq!(object.live(), &before);
}

#[test]
fn updates_of_one_manager_are_one_entry_with_the_time_of_the_last() {
    let mut object = Object::new();
    object.update("a", json!({"title": "x"}));
    object.update("a", json!({"title": "x", "replicas": 1}));
    assert_eq!(object.owners(), ["a Update: .spec .spec.replicas .spec.title"]);
    assert_eq!(object.time_of("a"), Some("2020-01-01T00:02:00Z"));
    object.subresource = "status";
    object.update("a", json!({"title": "x", "replicas": 2}));
    assert_eq!(object.entries().len(), 2, "a subresource is another identity");
}

#[test]
fn an_update_that_only_writes_reset_fields_owns_nothing() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    object.reset = [Path::fields(&["status"])].into_iter().collect();
    let before = object.owners();
    let mut new = object.live().clone();
    new["status"] = json!({"phase": "Ready"});
    object.replace("b", new);
    assert_eq!(object.owners(), before);
}

#[test]
fn an_object_without_owners_gets_none_by_an_update() {
    let mut object = Object::new();
    object.update("a", json!({"title": "x"}));
    object.live.as_mut().unwrap()["metadata"].as_object_mut().unwrap().remove("managedFields");
    object.update("b", json!({"title": "y"}));
    assert_eq!(object.owners(), [""; 0]);
}

#[test]
fn the_first_apply_finds_the_owner_of_what_was_there_before() {
    let mut object = Object::new();
    object.update("a", json!({"title": "x", "replicas": 1}));
    object.live.as_mut().unwrap()["metadata"].as_object_mut().unwrap().remove("managedFields");
    let result = object.apply("b", json!({"title": "y"}));
    assert_eq!(conflicts(result), [r#""before-first-apply" using example.com/v1: .spec.title"#]);
    object.force("b", json!({"title": "y"}));
    assert_eq!(object.owners(), ["b Apply: .spec.title", "before-first-apply Update: .spec .spec.replicas"]);
}

#[test]
fn an_update_with_an_empty_list_or_entry_resets_the_owners() {
    for reset in [json!([]), json!([{}])] {
        let mut object = Object::new();
        object.apply("a", json!({"title": "x"})).unwrap();
        let mut new = object.live().clone();
        new["metadata"]["managedFields"] = reset;
        object.replace("b", new);
        assert_eq!(object.owners(), [""; 0]);
    }
}

#[test]
fn an_update_without_owners_or_with_malformed_ones_keeps_those_of_the_live_object() {
    for given in [json!(null), json!([{"operation": "Delete", "apiVersion": "v1"}])] {
        let mut object = Object::new();
        object.apply("a", json!({"title": "x"})).unwrap();
        let mut new = object.live().clone();
        new["spec"]["replicas"] = 1.into();
        new["metadata"]["managedFields"] = given;
        object.replace("b", new);
        assert_eq!(object.owners(), ["a Apply: .spec.title", "b Update: .spec.replicas"]);
    }
}

#[test]
fn a_client_can_edit_the_owners_but_not_by_a_subresource() {
    let mut object = Object::new();
    object.apply("a", json!({"title": "x"})).unwrap();
    let mut edited = object.live().clone();
    edited["metadata"]["managedFields"][0]["manager"] = "b".into();
    object.subresource = "status";
    object.replace("c", edited.clone());
    assert_eq!(object.owners(), ["a Apply: .spec.title"]);
    object.subresource = "";
    object.replace("c", edited);
    assert_eq!(object.owners(), ["b Apply: .spec.title"]);
}

#[test]
fn the_oldest_of_more_than_ten_updaters_become_one() {
    let mut object = Object::new();
    object.apply("applier", json!({"title": "x"})).unwrap();
    let mut limits = json!({});
    for at in 0..12 {
        limits[format!("l{at:02}")] = at.into();
        object.update(&format!("u{at:02}"), json!({"title": "x", "limits": limits}));
    }
    let owners = object.owners();
    assert_eq!(owners.len(), 11);
    assert_eq!(owners[0], "applier Apply: .spec.title");
    let ancient = "ancient-changes Update: .spec.limits .spec.limits.l00 .spec.limits.l01 .spec.limits.l02";
    assert_eq!(owners[1], ancient);
    assert_eq!(object.time_of("ancient-changes"), Some("2020-01-01T00:04:00Z"), "the time of the latest");
}

#[test]
fn a_writer_without_a_name_is_unknown() {
    let mut object = Object::new();
    object.update("", json!({"title": "x"}));
    assert_eq!(object.owners(), ["unknown Update: .spec .spec.title"]);
}
