//! Patches: what RFC 6902 and RFC 7386 say, and what kube-apiserver adds.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use machinery_merge::{
    MAX_JSON_PATCH_COPY_BYTES, MAX_JSON_PATCH_OPERATIONS, PatchError, json_patch, merge_patch,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn patched(document: &Value, operations: &Value) -> Result<Value, PatchError> {
    json_patch(document, operations.to_string().as_bytes()).map(|patched| patched.value)
}

#[test]
fn a_json_patch_does_what_its_operations_say_in_their_order() {
    let pod = || json!({"metadata": {"labels": {"app": "db", "a/b": "1"}}, "list": ["x", "y"]});
    let cases = [
        (
            json!([{"op": "add", "path": "/metadata/labels/tier", "value": "back"}]),
            json!({"metadata": {"labels": {"app": "db", "a/b": "1", "tier": "back"}}, "list": ["x", "y"]}),
        ),
        (
            json!([{"op": "replace", "path": "/metadata/labels/a~1b", "value": "2"}]),
            json!({"metadata": {"labels": {"app": "db", "a/b": "2"}}, "list": ["x", "y"]}),
        ),
        (
            json!([{"op": "add", "path": "/list/1", "value": "z"}, {"op": "add", "path": "/list/-", "value": "end"}]),
            json!({"metadata": {"labels": {"app": "db", "a/b": "1"}}, "list": ["x", "z", "y", "end"]}),
        ),
        (
            json!([{"op": "test", "path": "/list/0", "value": "x"}, {"op": "remove", "path": "/list/0"}]),
            json!({"metadata": {"labels": {"app": "db", "a/b": "1"}}, "list": ["y"]}),
        ),
        (
            json!([{"op": "copy", "from": "/list", "path": "/more"}, {"op": "move", "from": "/list", "path": "/metadata/list"}]),
            json!({"metadata": {"labels": {"app": "db", "a/b": "1"}, "list": ["x", "y"]}, "more": ["x", "y"]}),
        ),
        (json!([]), pod()),
    ];
    for (operations, expected) in cases {
        assert_eq!(patched(&pod(), &operations).unwrap(), expected, "{operations}");
    }
}

#[test]
fn a_json_patch_that_does_not_fit_names_the_operation_and_its_path() {
    let document = json!({"spec": {"a": 1}, "list": [1]});
    let cases = [
        (json!([{"op": "test", "path": "/spec/a", "value": 2}]), 0, "/spec/a"),
        (json!([{"op": "test", "path": "/spec/b", "value": 2}]), 0, "/spec/b"),
        (json!([{"op": "remove", "path": "/spec/a"}, {"op": "remove", "path": "/spec/a"}]), 1, "/spec/a"),
        (json!([{"op": "replace", "path": "/spec/b", "value": 1}]), 0, "/spec/b"),
        (json!([{"op": "add", "path": "/status/x", "value": 1}]), 0, "/status/x"),
        (json!([{"op": "add", "path": "/list/2", "value": 1}]), 0, "/list/2"),
        (json!([{"op": "remove", "path": "/list/-"}]), 0, "/list/-"),
        (json!([{"op": "move", "from": "/spec", "path": "/spec/inside"}]), 0, "/spec/inside"),
        (json!([{"op": "copy", "from": "/nothing", "path": "/spec/b"}]), 0, "/spec/b"),
    ];
    for (operations, index, at) in cases {
        match patched(&document, &operations) {
            Err(PatchError::Inapplicable { operation, path, .. }) => {
                assert_eq!((operation, path.as_str()), (index, at), "{operations}");
            }
            other => panic!("{operations}: {other:?}"),
        }
    }
}

#[test]
fn a_value_that_is_no_json_patch_is_malformed() {
    let cases = [
        "",
        "{}",
        "null",
        "[1]",
        r#"[{"op": "add"}]"#,
        r#"[{"op": "grow", "path": "/a", "value": 1}]"#,
        r#"[{"op": "add", "path": "no/slash", "value": 1}]"#,
        r#"[{"op": "add", "path": "/a"}]"#,
        "[] []",
    ];
    for patch in cases {
        let result = json_patch(&json!({"a": 1}), patch.as_bytes());
        assert!(matches!(result, Err(PatchError::Malformed { .. })), "{patch}: {result:?}");
    }
}

#[test]
fn a_json_patch_has_at_most_ten_thousand_operations() {
    let test = json!({"op": "test", "path": "/a", "value": 1});
    let most = Value::Array(vec![test.clone(); MAX_JSON_PATCH_OPERATIONS]);
    assert!(patched(&json!({"a": 1}), &most).is_ok());
    let more = Value::Array(vec![test; MAX_JSON_PATCH_OPERATIONS + 1]);
    let error = patched(&json!({"a": 1}), &more).unwrap_err();
    assert_eq!(error.to_string(), "the allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copies_that_double_an_object_stop_at_the_limit() {
    let doubling: Vec<Value> =
        (0..64).map(|round| json!({"op": "copy", "from": "/a", "path": format!("/a/{round}")})).collect();
    let error = patched(&json!({"a": {"text": "0123456789"}}), &Value::Array(doubling)).unwrap_err();
    assert!(matches!(error, PatchError::CopiesTooMuch { limit: MAX_JSON_PATCH_COPY_BYTES }), "{error:?}");
}

#[test]
fn a_document_cannot_be_nested_until_the_stack_overflows() {
    // Each move nests the document deeper, and copies nothing.
    let deep = "/k".repeat(100);
    let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
    let mut nest = json!({});
    for _ in 0..100 {
        nest = json!({ "k": nest });
    }
    for (from, to) in [("/a", "/b"), ("/b", "/a")].into_iter().cycle().take(2_000) {
        operations.push(json!({"op": "add", "path": to, "value": nest}));
        operations.push(json!({"op": "move", "from": from, "path": format!("{to}{deep}")}));
    }
    let error = patched(&json!({}), &Value::Array(operations)).unwrap_err();
    assert!(
        matches!(&error, PatchError::Inapplicable { reason, .. } if reason.contains("deeper")),
        "{error:?}"
    );
}

#[test]
fn moving_things_to_and_fro_is_not_nesting() {
    let there = json!({"op": "move", "from": "/a/b/c/d", "path": "/x"});
    let back = json!({"op": "move", "from": "/x", "path": "/a/b/c/d"});
    let operations: Vec<Value> = [there, back].into_iter().cycle().take(1_000).collect();
    let document = json!({"a": {"b": {"c": {"d": {"e": 1}}}}});
    assert_eq!(patched(&document, &Value::Array(operations)).unwrap(), document);
}

#[test]
fn a_merge_patch_merges_objects_replaces_the_rest_and_removes_what_is_null() {
    // The cases of RFC 7386, appendix A, whose patch is an object.
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    for (document, patch, expected) in cases {
        let result = merge_patch(&document, patch.to_string().as_bytes()).unwrap().value;
        assert_eq!(result, expected, "{document} with {patch}");
    }
}

#[test]
fn a_value_that_is_no_object_is_no_merge_patch() {
    for patch in ["", "null", "[]", "1", "\"a\"", "{", "{} {}", "{\"a\": nope}"] {
        let result = merge_patch(&json!({"a": 1}), patch.as_bytes());
        assert!(matches!(result, Err(PatchError::Malformed { .. })), "{patch}: {result:?}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", value(), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #[test]
    fn a_merge_patch_applied_twice_changes_nothing_more(document in object(), patch in object()) {
        let bytes = patch.to_string();
        let once = merge_patch(&document, bytes.as_bytes()).unwrap().value;
        prop_assert_eq!(&merge_patch(&once, bytes.as_bytes()).unwrap().value, &once);
        // What the patch says is so afterwards: merging it into nothing gives a part of the result.
        let part = merge_patch(&json!({}), bytes.as_bytes()).unwrap().value;
        prop_assert!(contains(&once, &part), "{} is not in {}", part, once);
    }

    #[test]
    fn a_json_patch_that_fails_leaves_no_trace(document in object(), added in value()) {
        let before = document.clone();
        let operations = json!([
            {"op": "add", "path": "/new", "value": added},
            {"op": "test", "path": "/missing", "value": 1},
        ]);
        prop_assert!(patched(&document, &operations).is_err());
        prop_assert_eq!(document, before);
    }

    #[test]
    fn adding_and_removing_is_nothing(document in object(), added in value()) {
        let operations = json!([{"op": "add", "path": "/new", "value": added}, {"op": "remove", "path": "/new"}]);
        prop_assert_eq!(patched(&document, &operations).unwrap(), document);
    }

    #[test]
    fn no_bytes_make_it_panic(document in object(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = json_patch(&document, &bytes);
        let _ = merge_patch(&document, &bytes);
    }
}

fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        _ => whole == part,
    }
}

#[test]
fn unknown_and_duplicate_fields_of_a_patch_are_found() {
    let document = json!({"a": 1});
    let patched = merge_patch(&document, br#"{"a": 2, "b": {"c": 1, "c": 2}, "a": 3}"#).unwrap();
    assert_eq!(patched.value, json!({"a": 3, "b": {"c": 2}}));
    assert_eq!(patched.findings, [r#"duplicate field "b.c""#, r#"duplicate field "a""#]);
    let operations =
        br#"[{"op": "add", "path": "/b", "value": 1, "foo": 2}, {"op": "add", "path": "/c", "path": "/d", "value": 1}]"#;
    let patched = json_patch(&document, operations).unwrap();
    assert_eq!(patched.value, json!({"a": 1, "b": 1, "d": 1}));
    assert_eq!(
        patched.findings,
        [r#"json patch unknown field "[0].foo""#, r#"json patch duplicate field "[1].path""#]
    );
}
