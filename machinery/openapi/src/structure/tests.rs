use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

#[derive(Deserialize, Serialize, JsonSchema)]
struct Pot {
    kind: String,
    spec: Spec,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Spec {
    dish: String,
    servings: Option<i32>,
    heat: Option<Heat>,
    hot: Option<bool>,
    weight: Option<f64>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// Its due time.
    due: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
enum Heat {
    Low,
    High,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Step {
    text: String,
}

fn check(document: &Value) -> Vec<String> {
    let own = GroupVersion { group: "kitchen.dev".to_owned(), version: "v1".to_owned() };
    let structure = Structure::new("Pot", &own, &schemars::schema_for!(Pot)).expect("a structure");
    structure.check(document).iter().map(ToString::to_string).collect()
}

#[test]
fn every_structural_error_is_reported_in_the_words_of_custom_resources() {
    let document = json!({"spec": {
        "servings": "many", "heat": "Medium", "hot": 1, "weight": "heavy", "steps": [{"text": "x"}, {}, 3],
        "labels": {"a": 1}, "due": "tomorrow",
    }});
    assert_eq!(
        check(&document),
        [
            "spec.dish: Required value",
            r#"spec.due: Invalid value: "tomorrow": spec.due in body must be of type date-time: "tomorrow""#,
            r#"spec.heat: Unsupported value: "Medium": supported values: "Low", "High""#,
            r#"spec.hot: Invalid value: "integer": spec.hot in body must be of type boolean: "integer""#,
            r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#,
            r#"spec.servings: Invalid value: "string": spec.servings in body must be of type integer: "string""#,
            "spec.steps[1].text: Required value",
            r#"spec.steps[2]: Invalid value: "integer": spec.steps[2] in body must be of type object: "integer""#,
            r#"spec.weight: Invalid value: "string": spec.weight in body must be of type number: "string""#,
        ]
    );
}

#[test]
fn a_good_document_has_no_errors_whatever_is_null_or_unknown() {
    let document = json!({"kind": 1, "more": 1, "spec": {
        "dish": "soup", "servings": null, "heat": "Low", "weight": 1, "due": "2099-01-01T00:00:00Z", "more": {},
    }});
    assert_eq!(check(&document), [""; 0]);
    assert_eq!(check(&json!([])), [""; 0]);
    assert_eq!(check(&json!({"spec": null})), ["spec: Required value"]);
    let large = json!({"spec": {"dish": "soup", "servings": 1_u64 << 40}});
    assert_eq!(check(&large).len(), 1, "a number of more than 32 bits");
}

#[test]
fn a_part_of_an_object_gets_the_required_fields_that_it_lacks_and_no_others() {
    let own = GroupVersion { group: "kitchen.dev".to_owned(), version: "v1".to_owned() };
    let structure = Structure::new("Pot", &own, &schemars::schema_for!(Pot)).expect("a structure");
    let whole = json!({"kind": "Pot", "spec": {"dish": "soup", "servings": 2, "steps": [{"text": "x"}]}});
    let mut part = json!({"metadata": {}});
    structure.complete(&mut part, &whole);
    assert_eq!(part, json!({"kind": "Pot", "metadata": {}, "spec": {"dish": "soup"}}));
    assert_eq!(check(&part), [""; 0]);
    let mut part = json!({"kind": "Pot", "spec": {"dish": "stew", "servings": 3}});
    let before = part.clone();
    structure.complete(&mut part, &whole);
    assert_eq!(part, before, "nothing is missing");
}

#[test]
fn no_more_than_a_hundred_errors_are_reported() {
    let document = json!({"spec": {"dish": "soup", "steps": vec![1; 1000]}});
    assert_eq!(check(&document).len(), MAX_ERRORS);
}

#[test]
fn declared_fields_have_a_type_and_others_have_none() {
    let own = GroupVersion { group: "kitchen.dev".to_owned(), version: "v1".to_owned() };
    let structure = Structure::new("Pot", &own, &schemars::schema_for!(Pot)).expect("a structure");
    for (path, expected) in [
        ("spec", Some("object")),
        ("spec.dish", Some("string")),
        ("spec.servings", Some("integer")),
        ("spec.steps", Some("array")),
        ("spec.steps.text", None),
        ("spec.labels.a", None),
        ("spec.lid", None),
        ("spec.", None),
        ("", None),
    ] {
        assert_eq!(structure.field_type(path), expected, "{path}");
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Shelf {
    #[schemars(extend("minProperties" = 1, "maxProperties" = 2))]
    labels: BTreeMap<String, String>,
    #[schemars(extend("multipleOf" = 3))]
    jars: Option<i64>,
    #[schemars(extend("multipleOf" = 0.1))]
    height: Option<f64>,
}

#[test]
fn a_number_of_properties_or_a_multiple_that_is_not_allowed_is_reported() {
    let own = GroupVersion { group: "kitchen.dev".to_owned(), version: "v1".to_owned() };
    let structure = Structure::new("Shelf", &own, &schemars::schema_for!(Shelf)).expect("a structure");
    let check = |document: &Value| -> Vec<String> {
        structure.check(document).iter().map(ToString::to_string).collect()
    };
    for good in [
        json!({"labels": {"a": "x"}, "jars": -3, "height": 0.3}),
        json!({"labels": {"a": "x", "b": "y"}, "jars": 0, "height": 1e12}),
    ] {
        assert_eq!(check(&good), [""; 0], "{good}");
    }
    assert_eq!(
        check(&json!({"labels": {"a": "x", "b": "y", "c": "z"}, "jars": 4, "height": 0.35})),
        [
            "height: Invalid value: 0.35: height in body should be a multiple of 0.1",
            "jars: Invalid value: 4: jars in body should be a multiple of 3",
            "labels: Too many: 3: must have at most 2 items",
        ]
    );
    assert_eq!(
        check(&json!({"labels": {}})),
        ["labels: Invalid value: 0: labels in body should have at least 1 properties"]
    );
}
