//! Strategic merge patches: the rules of `k8s.io/apimachinery/pkg/util/strategicpatch`.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use machinery_merge::{MAX_STRATEGIC_COMPARISONS, MAX_STRATEGIC_PATCH_ITEMS, PatchError, StrategicPatch};
use machinery_schema::Schema;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the shape of a kind with a list of each sort.
fn schema() -> Schema {
    let port = json!({"type": "object", "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string"}, "name": {"type": "string"},
    }});
    let step = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "minutes": {"type": "integer"},
        "tools": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
    }});
    let spec = json!({"type": "object", "properties": {
        "dish": {"type": "string"},
        "words": {"type": "array", "items": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "steps": {
            "type": "array", "items": step,
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        },
        "ports": {
            "type": "array", "items": port,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "port",
        },
    }});
    let definitions = BTreeMap::from([(
        "Pot".to_owned(),
        json!({"type": "object", "properties": {"spec": spec, "metadata": {"type": "object"}}}),
    )]);
    Schema::new(&definitions, "Pot").unwrap()
}

fn patched(spec: &Value, patch: &Value) -> Result<Value, PatchError> {
    let patch = StrategicPatch::parse(json!({"spec": patch}).to_string().as_bytes())?;
    let patched = patch.apply(&json!({"spec": spec}), &schema())?;
    Ok(patched.value["spec"].clone())
}

#[test]
fn what_the_object_lacks_keeps_the_rules_of_what_it_has() {
    let step = |name: &str, minutes: u32| json!({"name": name, "minutes": minutes});
    let twice = json!([step("boil", 1), step("boil", 2)]);
    assert!(matches!(patched(&json!({}), &json!({"steps": twice})), Err(PatchError::Unmergeable { .. })));

    for steps in [json!([{"minutes": 1}]), twice] {
        let patch = StrategicPatch::parse(json!({"spec": {"steps": steps}}).to_string().as_bytes());
        let refused = patch.unwrap().apply(&json!({}), &schema()).unwrap_err();
        assert!(matches!(refused, PatchError::Unmergeable { path, .. } if path == "spec.steps"));
    }
}

#[test]
fn fields_are_set_and_removed_as_by_a_merge_patch() {
    let cases = [
        (json!({"dish": "soup"}), json!({"dish": "stew"}), json!({"dish": "stew"})),
        (json!({"dish": "soup"}), json!({"dish": null}), json!({})),
        (
            json!({}),
            json!({"dish": "stew", "more": {"a": null, "b": 1}}),
            json!({"dish": "stew", "more": {"b": 1}}),
        ),
        (json!({"more": 1}), json!({"more": {"a": null}}), json!({"more": {}})),
        (json!({"words": ["a", "b"]}), json!({"words": ["c"]}), json!({"words": ["c"]})),
        (json!({"words": "a"}), json!({"words": ["c"]}), json!({"words": ["c"]})),
    ];
    for (spec, patch, expected) in cases {
        assert_eq!(patched(&spec, &patch).unwrap(), expected, "{spec} with {patch}");
    }
}

#[test]
fn items_are_merged_by_their_key_and_keep_what_the_patch_does_not_name() {
    let spec = json!({"steps": [{"name": "cut", "minutes": 1, "tools": ["knife"]}, {"name": "boil"}]});
    let cases = [
        (
            json!([{"name": "boil", "minutes": 9}]),
            json!([{"name": "cut", "minutes": 1, "tools": ["knife"]}, {"name": "boil", "minutes": 9}]),
        ),
        (
            json!([{"name": "cut", "minutes": null, "tools": ["board", "knife"]}]),
            json!([{"name": "cut", "tools": ["board", "knife"]}, {"name": "boil"}]),
        ),
        (
            json!([{"name": "eat", "minutes": null}]),
            json!([{"name": "cut", "minutes": 1, "tools": ["knife"]}, {"name": "boil"}, {"name": "eat"}]),
        ),
        (
            json!([{"name": "cut", "$patch": "delete"}, {"name": "none", "$patch": "delete"}]),
            json!([{"name": "boil"}]),
        ),
        (
            json!([{"name": "cut", "$patch": "delete"}, {"name": "cut"}]),
            json!([{"name": "boil"}, {"name": "cut"}]),
        ),
        (json!([{"name": "eat"}, {"$patch": "replace"}]), json!([{"name": "eat"}])),
        (json!([]), spec["steps"].clone()),
    ];
    for (steps, expected) in cases {
        assert_eq!(patched(&spec, &json!({"steps": steps})).unwrap()["steps"], expected, "{steps}");
    }
}

#[test]
fn scalars_join_a_list_once_and_leave_it_by_a_directive() {
    let spec = json!({"tags": ["a", "b", "c"], "words": ["x", "y"]});
    let cases = [
        (json!({"tags": ["d", "b"]}), json!(["a", "d", "b", "c"])),
        (json!({"tags": ["d"]}), json!(["a", "b", "c", "d"])),
        (json!({"$deleteFromPrimitiveList/tags": ["a", "z"]}), json!(["b", "c"])),
        (json!({"$deleteFromPrimitiveList/tags": ["a"], "tags": ["d"]}), json!(["b", "c", "d"])),
        (json!({"$setElementOrder/tags": ["c", "a"]}), json!(["b", "c", "a"])),
    ];
    for (patch, expected) in cases {
        assert_eq!(patched(&spec, &patch).unwrap()["tags"], expected, "{patch}");
    }
    let words = patched(&spec, &json!({"$deleteFromPrimitiveList/words": ["x"]})).unwrap();
    assert_eq!(words["words"], json!(["y"]), "whatever the strategy of the list");
}

#[test]
fn an_order_sorts_the_items_that_it_names_and_keeps_the_others_among_them() {
    let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Value>();
    let spec = json!({"steps": named(&["a", "x", "b", "y", "c"])});
    for (order, expected) in [
        (["a", "b", "c"], ["a", "x", "b", "y", "c"]),
        (["c", "b", "a"], ["x", "y", "c", "b", "a"]),
        (["b", "c", "a"], ["x", "b", "y", "c", "a"]),
    ] {
        let patch = json!({"$setElementOrder/steps": named(&order)});
        assert_eq!(patched(&spec, &patch).unwrap()["steps"], named(&expected), "{order:?}");
    }
    let joined = json!({"$setElementOrder/steps": named(&["n", "a"]), "steps": named(&["n"])});
    assert_eq!(patched(&json!({"steps": named(&["a"])}), &joined).unwrap()["steps"], named(&["n", "a"]));
    assert_eq!(patched(&json!({}), &joined).unwrap()["steps"], named(&["n"]), "there was no list");
}

#[test]
fn the_other_keys_of_a_list_count_as_far_as_both_items_have_them() {
    let spec = json!({"ports": [
        {"port": 53, "protocol": "TCP", "name": "t"}, {"port": 53, "protocol": "UDP", "name": "u"},
    ]});
    let names = |ports: &Value| {
        let patched = patched(&spec, &json!({"ports": ports})).unwrap();
        patched["ports"].as_array().unwrap().iter().map(|port| port["name"].clone()).collect::<Value>()
    };
    assert_eq!(names(&json!([{"port": 53, "protocol": "UDP", "name": "new"}])), json!(["t", "new"]));
    assert_eq!(names(&json!([{"port": 53, "protocol": "TCP", "$patch": "delete"}])), json!(["u"]));
    assert_eq!(names(&json!([{"port": 53, "protocol": "SCTP", "name": "s"}])), json!(["t", "u", "s"]));
    let partial = json!([{"port": 53, "name": "new"}]);
    let one = json!({"ports": [{"port": 53, "protocol": "TCP", "name": "t"}]});
    assert_eq!(patched(&one, &json!({"ports": partial})).unwrap()["ports"][0]["name"], "new");
    let problem = "the item with the \"port\" 53 fits more than one: it lacks \"protocol\"";
    let names_both = json!([{"port": 53, "protocol": "UDP"}, {"port": 53}]);
    for (ports, problem) in [
        (partial, problem),
        (names_both, problem),
        (json!([{"port": 53, "protocol": null}]), "an item removes its key \"protocol\""),
    ] {
        let error = patched(&spec, &json!({"ports": ports})).unwrap_err().to_string();
        assert!(error.contains(problem), "{ports}: {error}");
    }
}

#[test]
fn directives_of_maps_replace_empty_and_prune_them() {
    let spec = json!({"more": {"a": 1, "b": 2}, "dish": "soup"});
    let cases = [
        (json!({"more": {"$patch": "replace", "c": 3}}), json!({"c": 3})),
        (json!({"more": {"$patch": "delete"}}), json!({})),
        (json!({"more": {"$retainKeys": ["a", "c"], "c": 3}}), json!({"a": 1, "c": 3})),
    ];
    for (patch, expected) in cases {
        assert_eq!(patched(&spec, &patch).unwrap()["more"], expected, "{patch}");
    }
    assert_eq!(patched(&json!({}), &json!({"more": {"$patch": "delete"}})).unwrap(), json!({}));
}

#[test]
fn a_patch_that_does_not_fit_says_why() {
    let spec = json!({"steps": [{"name": "cut"}], "tags": ["a"], "more": {}});
    let order = json!([{"name": "b"}, {"name": "a"}]);
    for (patch, problem) in [
        (json!({"$patch": "merge"}), "$patch of spec is neither \"replace\" nor \"delete\""),
        (json!({"steps": [{"name": "a", "$patch": 1}]}), "$patch of spec.steps is neither"),
        (json!({"$setElementOrder/steps": "a"}), "$setElementOrder/steps of spec is no list"),
        (json!({"$retainKeys": ["more"], "dish": "x"}), "$retainKeys of spec lacks \"dish\""),
        (json!({"$retainKeys": {}}), "$retainKeys of spec is no list"),
        (json!({"steps": [{"minutes": 1}]}), "cannot merge spec.steps: an item lacks its merge key \"name\""),
        (json!({"steps": [1]}), "cannot merge spec.steps: an item lacks its merge key \"name\""),
        (json!({"steps": [{"name": null, "$patch": "delete"}]}), "an item lacks its merge key \"name\""),
        (json!({"$setElementOrder/steps": [{}]}), "an item lacks its merge key \"name\""),
        (json!({"tags": [{"a": 1}]}), "cannot merge spec.tags: an item is no scalar"),
        (json!({"$deleteFromPrimitiveList/tags": [{}]}), "cannot merge spec.tags: an item is no scalar"),
        (
            json!({"$deleteFromPrimitiveList/$retainKeys": ["a"]}),
            "$deleteFromPrimitiveList/$retainKeys of spec changes no field, but a directive",
        ),
        (
            json!({"steps": [{"name": "a"}, {"name": "a", "minutes": 1}]}),
            "cannot merge spec.steps: two items have the \"name\" \"a\"",
        ),
        (
            json!({"$setElementOrder/steps": order, "steps": [{"name": "a"}, {"name": "b"}]}),
            "cannot merge spec.steps: the order of its items is not that of $setElementOrder",
        ),
    ] {
        let error = patched(&spec, &patch).unwrap_err().to_string();
        assert!(error.contains(problem), "{patch}: {error}");
    }
    for patch in ["[]", "1", "{", ""] {
        let malformed = StrategicPatch::parse(patch.as_bytes()).unwrap_err();
        assert!(matches!(malformed, PatchError::Malformed { .. }), "{patch}");
    }
}

#[test]
fn a_patch_has_a_limited_number_of_items_to_merge() {
    let steps = |count: usize| (0..count).map(|n| json!({"name": n.to_string()})).collect::<Value>();
    let most = MAX_STRATEGIC_PATCH_ITEMS / 2;
    let patch = |count: usize| json!({"steps": steps(count), "$setElementOrder/steps": steps(count)});
    assert_eq!(patched(&json!({}), &patch(most)).unwrap()["steps"].as_array().unwrap().len(), most);
    let refused = patched(&json!({}), &patch(most + 1)).unwrap_err();
    assert!(matches!(&refused, PatchError::TooManyItems { path, .. } if path == "spec.steps"), "{refused}");
    let replaced = json!({"words": vec!["x"; MAX_STRATEGIC_PATCH_ITEMS + 1]});
    assert!(patched(&json!({}), &replaced).is_ok(), "a list that is replaced is compared with nothing");
}

#[test]
fn the_fields_to_retain_are_limited_in_number() {
    let fields = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let patch = |count: usize| json!({"more": {"$retainKeys": fields(count)}});
    let live = json!({"more": {"0": 1, "x": 2}});
    let kept = patched(&live, &patch(MAX_STRATEGIC_PATCH_ITEMS)).unwrap();
    assert_eq!(kept, json!({"more": {"0": 1}}));
    let refused = patched(&live, &patch(MAX_STRATEGIC_PATCH_ITEMS + 1)).unwrap_err();
    assert!(matches!(&refused, PatchError::TooManyItems { path, .. } if path == "spec.more"), "{refused}");
}

#[test]
fn the_items_of_a_patch_and_those_of_the_object_are_compared_a_limited_number_of_times() {
    let tags = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
    let live = json!({"tags": tags(MAX_STRATEGIC_COMPARISONS / 100)});
    let patches = [
        |tags: Vec<String>| json!({"tags": tags}),
        |tags| json!({"$setElementOrder/tags": tags}),
        |tags| json!({"$deleteFromPrimitiveList/tags": tags}),
    ];
    for patch in patches {
        assert!(patched(&live, &patch(tags(100))).is_ok());
        let refused = patched(&live, &patch(tags(101))).unwrap_err();
        let PatchError::TooManyComparisons { path, .. } = &refused else { panic!("{refused}") };
        assert_eq!(path, "spec.tags");
    }
}

#[test]
fn duplicate_fields_of_a_patch_are_found() {
    let patch = StrategicPatch::parse(br#"{"spec": {"dish": "a", "dish": "b"}}"#).unwrap();
    let patched = patch.apply(&json!({}), &schema()).unwrap();
    assert_eq!(patched.value, json!({"spec": {"dish": "b"}}));
    assert_eq!(patched.findings, ["duplicate field \"spec.dish\""]);
}

/// Returns the steps whose names the steps before them do not have.
fn without_repeats(steps: &Value) -> Value {
    let mut seen = std::collections::HashSet::new();
    let steps = steps.as_array().unwrap().iter();
    steps.filter(|step| seen.insert(step["name"].to_string())).cloned().collect()
}

/// Returns lists of steps with few names.
fn steps() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "c", "d"]);
    let step = (name, prop::option::of(0..3)).prop_map(|(name, minutes)| match minutes {
        Some(minutes) => json!({"name": name, "minutes": minutes}),
        None => json!({"name": name}),
    });
    prop::collection::vec(step, 0..5).prop_map(Value::Array)
}

proptest! {
    #[test]
    fn the_same_patch_changes_nothing_more(live in steps(), items in steps(), order in steps()) {
        let patch = json!({"steps": without_repeats(&items), "$setElementOrder/steps": order});
        if let Ok(once) = patched(&json!({"steps": live}), &patch) {
            prop_assert_eq!(patched(&once, &patch).unwrap(), once);
        }
    }

    #[test]
    fn every_item_of_the_patch_is_there_afterwards_and_no_other_is_lost(live in steps(), items in steps()) {
        let (live, items) = (without_repeats(&live), without_repeats(&items));
        let once = patched(&json!({"steps": live}), &json!({"steps": items})).unwrap();
        let names = |steps: &Value| -> Vec<Value> {
            steps.as_array().unwrap().iter().map(|step| step["name"].clone()).collect()
        };
        let left = names(&once["steps"]);
        for name in names(&live).into_iter().chain(names(&items)) {
            prop_assert!(left.contains(&name), "{} in {:?}", name, left);
        }
    }
}
