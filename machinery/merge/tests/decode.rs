//! Decoding: unknown, duplicate and wrong fields, by path.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_merge::{
    DecodeError, Decoded, Parsed, Strictness, decode, decode_parsed, decode_yaml, parse_json, parse_manifest,
    parse_yaml,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Thing {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: Spec,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    requesters: Vec<Requester>,
    ttl: Option<i64>,
    target: Option<Box<Requester>>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Requester {
    name: String,
    #[serde(default)]
    policy: Policy,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
enum Policy {
    #[default]
    Wait,
    GiveUp,
}

fn thing(text: &str, strictness: Strictness) -> Result<Decoded<Thing>, DecodeError> {
    decode(text.as_bytes(), strictness)
}

#[test]
fn unknown_and_duplicate_fields_are_reported_by_path_in_kubernetes_words() {
    let cases: [(&str, &[&str]); 12] = [
        (r#"{"spec": {}}"#, &[]),
        (r#"{"spec": {"foo": 1}}"#, &[r#"unknown field "spec.foo""#]),
        (
            r#"{"spec": {"foo": {"deep": 1}}, "bar": 2}"#,
            &[r#"unknown field "bar""#, r#"unknown field "spec.foo""#],
        ),
        (r#"{"spec": {"ttl": 1, "ttl": 2}}"#, &[r#"duplicate field "spec.ttl""#]),
        (r#"{"spec": {"ttl": 1, "ttl": 2, "ttl": 3}}"#, &[r#"duplicate field "spec.ttl""#]),
        (
            r#"{"spec": {"foo": 1, "ttl": 1, "ttl": 2}}"#,
            &[r#"unknown field "spec.foo""#, r#"duplicate field "spec.ttl""#],
        ),
        (
            r#"{"spec": {"requesters": [{"name": "a"}, {"name": "b", "name": "c", "nmae": "d"}]}}"#,
            &[r#"unknown field "spec.requesters[1].nmae""#, r#"duplicate field "spec.requesters[1].name""#],
        ),
        (r#"{"spec": {"target": {"name": "a", "uid": "b"}}}"#, &[r#"unknown field "spec.target.uid""#]),
        (r#"{"metadata": {"name": "a", "nmae": "b"}, "spec": {}}"#, &[r#"unknown field "metadata.nmae""#]),
        (
            r#"{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "owner": 1}]}, "spec": {}}"#,
            &[r#"unknown field "metadata.ownerReferences[0].owner""#],
        ),
        (
            r#"{"metadata": {"labels": {"a": "1", "a": "2"}}, "spec": {}}"#,
            &[r#"duplicate field "metadata.labels.a""#],
        ),
        (r#"{"Spec": {}, "spec": {}}"#, &[r#"unknown field "Spec""#]),
    ];
    for (text, findings) in cases {
        assert_eq!(thing(text, Strictness::Warn).unwrap().findings(), findings, "{text}");
        assert!(thing(text, Strictness::Ignore).unwrap().findings().is_empty(), "{text}");
        match thing(text, Strictness::Strict) {
            Ok(_) => assert!(findings.is_empty(), "{text}"),
            Err(error) => {
                assert_eq!(
                    error.to_string(),
                    format!("strict decoding error: {}", findings.join(", ")),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn managed_fields_are_free_form() {
    let object = json!({
        "metadata": {"managedFields": [{
            "manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2026-11-20T22:00:00Z",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}},
        }]},
        "spec": {},
    });
    let decoded: Decoded<Thing> =
        decode_parsed(Parsed { value: object.clone(), ..Parsed::default() }, Strictness::Strict).unwrap();
    let fields = decoded.value.metadata.managed_fields.unwrap()[0].fields_v1.clone().unwrap().0;
    assert_eq!(fields, object["metadata"]["managedFields"][0]["fieldsV1"]);
}

#[test]
fn unknown_fields_of_kubernetes_types_are_reported_too() {
    let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dta": {}, "data": {"anything": "goes"}}"#;
    let decoded: Decoded<ConfigMap> = decode(text.as_bytes(), Strictness::Warn).unwrap();
    assert_eq!(decoded.unknown_fields, ["dta"]);
    assert_eq!(decoded.value.data.unwrap()["anything"], "goes");
}

#[test]
fn of_a_field_that_is_given_twice_the_last_counts() {
    let decoded = thing(r#"{"spec": {"ttl": 1, "ttl": 2}}"#, Strictness::Warn).unwrap();
    assert_eq!(decoded.value.spec.ttl, Some(2));
}

#[test]
fn a_wrong_type_is_reported_with_its_path() {
    let cases = [
        (r#"{"spec": {"ttl": "soon"}}"#, "spec.ttl", "invalid type: string \"soon\", expected i64"),
        (
            r#"{"spec": {"requesters": [{"name": "a"}, {"name": 1}]}}"#,
            "spec.requesters[1].name",
            "invalid type: integer `1`, expected a string",
        ),
        (
            r#"{"spec": {"requesters": [{"name": "a", "policy": "Never"}]}}"#,
            "spec.requesters[0].policy",
            "unknown variant `Never`, expected `Wait` or `GiveUp`",
        ),
        (r#"{"spec": {"requesters": [{}]}}"#, "spec.requesters[0]", "missing field `name`"),
        (r#"{"spec": {"requesters": {}}}"#, "spec.requesters", "invalid type: map, expected a sequence"),
        (r#"{"metadata": {"creationTimestamp": "yesterday"}, "spec": {}}"#, "metadata.creationTimestamp", ""),
        ("[]", "", "invalid type: sequence, expected struct Thing"),
        (r#"{"spec": [[], 1]}"#, "spec", "invalid type: sequence, expected struct Spec"),
        (r#"{"spec": {"requesters": [["a"]]}}"#, "spec.requesters[0]", "invalid type: sequence"),
        (r#"{"metadata": [], "spec": {}}"#, "metadata", "invalid type: sequence"),
        ("{}", "", "missing field `spec`"),
    ];
    for (text, at, expected) in cases {
        let error = thing(text, Strictness::Strict).unwrap_err();
        let DecodeError::WrongType { path, message } = &error else { panic!("{text}: {error:?}") };
        assert_eq!(path, at, "{text}: {message}");
        assert!(message.contains(expected), "{text}: {message}");
        assert!(error.to_string().starts_with(at), "{error}");
    }
}

#[test]
fn null_counts_as_absent() {
    let text = r#"{"metadata": {"creationTimestamp": null, "labels": null}, "spec": {"requesters": null, "ttl": null}}"#;
    let decoded = thing(text, Strictness::Strict).unwrap();
    assert_eq!(decoded.value, thing(r#"{"spec": {}}"#, Strictness::Strict).unwrap().value);
}

#[test]
fn null_is_kept_in_free_form_values_and_reported_in_unknown_fields() {
    let decoded: Decoded<Value> = decode(br#"{"a": null, "b": [null]}"#, Strictness::Strict).unwrap();
    assert_eq!(decoded.value, json!({"a": null, "b": [null]}));
    let decoded = thing(r#"{"spec": {"foo": null}}"#, Strictness::Warn).unwrap();
    assert_eq!(decoded.unknown_fields, ["spec.foo"]);
}

#[test]
fn what_is_not_json_is_malformed() {
    let deep = "[".repeat(100_000);
    let unclosed = format!(r#"{{"spec": {}"#, "{\"a\":".repeat(100_000));
    for text in ["", "{", "{} x", "{\"a\": 1,}", "nope", "{'a': 1}", deep.as_str(), unclosed.as_str()] {
        let result = thing(text, Strictness::Ignore);
        assert!(matches!(result, Err(DecodeError::Malformed { .. })), "{result:?}");
    }
    let invalid = decode::<Thing>(b"{\"spec\": {\"a\": \"\xff\"}}", Strictness::Ignore);
    assert!(matches!(invalid, Err(DecodeError::Malformed { .. })), "{invalid:?}");
}

#[test]
fn findings_are_bounded() {
    let unknown: Vec<String> = (0..500).map(|number| format!(r#""f{number}": 1, "d": 1"#)).collect();
    let decoded = thing(&format!(r#"{{"spec": {{}}, {}}}"#, unknown.join(", ")), Strictness::Warn).unwrap();
    assert_eq!((decoded.unknown_fields.len(), decoded.duplicate_fields.len()), (100, 1));
}

#[test]
fn a_field_that_is_repeated_within_a_long_key_is_reported_in_few_bytes() {
    // Writing the whole path for each repetition would be 300 GB.
    let (key, fields) = ("k".repeat(1_000_000), vec![r#""a":1"#; 300_000].join(","));
    let text = format!(r#"{{"{key}":{{{fields}}}}}"#);
    for parse in [parse_json, parse_yaml, parse_manifest] {
        let found = parse(text.as_bytes()).unwrap().duplicate_fields;
        assert_eq!(found, [format!("{}…", "k".repeat(253))]);
    }
    let unknown = thing(&format!(r#"{{"spec": {{"{key}": 1}}}}"#), Strictness::Warn).unwrap().unknown_fields;
    assert_eq!(unknown, [format!("spec.{}…", "k".repeat(248))]);
}

#[test]
fn yaml_is_read_as_json_is() {
    let text = "spec:\n  ttl: 5\n  foo: x\n  requesters:\n  - name: a\n    policy: GiveUp\n    name: b\n";
    let decoded: Decoded<Thing> = decode_yaml(text.as_bytes(), Strictness::Warn).unwrap();
    assert_eq!(decoded.value.spec.ttl, Some(5));
    assert_eq!(decoded.value.spec.requesters, [Requester { name: "b".to_owned(), policy: Policy::GiveUp }]);
    let findings = [r#"unknown field "spec.foo""#, r#"duplicate field "spec.requesters[0].name""#];
    assert_eq!(decoded.findings(), findings);
    for text in ["spec: [", "a: 1\n--- \nb: 2", "? [1]\n: x", "spec: !tag x", "spec: .inf"] {
        let result = decode_yaml::<Thing>(text.as_bytes(), Strictness::Warn);
        assert!(matches!(result, Err(DecodeError::Malformed { .. })), "{text}: {result:?}");
    }
}

proptest! {
    #[test]
    fn parsing_agrees_with_serde_json(text in "[\\[\\]{}:,\"a0-9.eE+ -]{0,24}") {
        let expected = serde_json::from_str::<Value>(&text).ok();
        prop_assert_eq!(parse_json(text.as_bytes()).ok().map(|parsed| parsed.value), expected);
    }
}

#[test]
fn a_yaml_body_is_one_document() {
    for text in ["a: 1\n---\nb: 2\n", "---\na: 1\n---\nb: 2\n", "a: 1\n...\nb: 2\n", "a: 1\n---\n"] {
        let error = parse_yaml(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("there is more than one document"), "{text:?}: {error}");
    }
    assert!(parse_yaml(b"{\"a\": 1} {}").unwrap_err().to_string().contains("line 1, column 10"));
    assert_eq!(parse_yaml(b"---\na: 1\n...\n").unwrap().value, json!({"a": 1}));
}

#[test]
fn aliases_cannot_blow_a_document_up() {
    let text = "x".repeat(10_000);
    let long = format!("a: &a {text}\nb: [{}]", ["*a"; 900].join(", "));
    let nested = "a: &a [0,0,0,0,0,0,0,0]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c]";
    for document in [long.as_str(), nested] {
        let error = parse_yaml(document.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("aliases"), "{error}");
    }
    let few = parse_yaml(b"a: &a {b: soup}\nc: *a").unwrap();
    assert_eq!(few.value, json!({"a": {"b": "soup"}, "c": {"b": "soup"}}));
}

#[test]
fn the_merge_keys_of_a_manifest_are_replaced_as_by_kubectl() {
    let anchors = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\n";
    for (text, expected) in [
        ("c: {<<: *a}", json!({"x": 1, "y": 1})),
        ("c: {<<: *a, x: 3}", json!({"x": 3, "y": 1})),
        // kubectl's parser goes by the order.
        ("c: {x: 3, <<: *a}", json!({"x": 1, "y": 1})),
        ("c: {<<: [*a, *b]}", json!({"x": 1, "y": 1, "z": 2})),
        ("c: {<<: *a, <<: *b}", json!({"x": 1, "y": 2, "z": 2})),
        ("c: {<<: {w: 4, <<: *a}}", json!({"w": 4, "x": 1, "y": 1})),
        ("c: {<<: []}", json!({})),
        ("c:\n  <<: *a\n  w: {<<: *b}", json!({"x": 1, "y": 1, "w": {"y": 2, "z": 2}})),
    ] {
        let parsed = parse_manifest(format!("{anchors}{text}\n").as_bytes()).unwrap();
        assert_eq!(parsed.value["c"], expected, "{text}");
        assert_eq!(parsed.duplicate_fields, Vec::<String>::new(), "{text}");
    }
    for text in ["c: {<<: 1}", "c: {<<: }", "c: {<<: [*a, 1]}", "c: {<<: text}"] {
        let error = parse_manifest(format!("{anchors}{text}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.contains("neither a mapping nor a list of mappings"), "{text}: {error}");
    }
    let twice = parse_manifest(b"a: &a {x: 1}\nc: {<<: *a, x: 2, x: 3}\n").unwrap();
    assert_eq!((twice.value["c"]["x"].clone(), twice.duplicate_fields), (json!(3), vec!["c.x".to_owned()]));
    // A body of a request, and JSON, have no merge keys.
    for parsed in [parse_yaml(b"<<: {x: 1}"), parse_manifest(b"{\"<<\": {\"x\": 1}}")] {
        assert_eq!(parsed.unwrap().value, json!({"<<": {"x": 1}}));
    }
}

#[test]
fn a_manifest_grows_by_its_aliases_to_a_limit() {
    let defaults = (0..100).map(|at| format!("f{at}: text")).collect::<Vec<_>>().join(", ");
    let manifest = |uses: usize| {
        let items: Vec<String> = (0..uses).map(|at| format!("- {{<<: *a, name: n{at}}}\n")).collect();
        format!("a: &a {{{defaults}}}\nc:\n{}", items.concat())
    };
    let parsed = parse_manifest(manifest(500).as_bytes()).unwrap();
    assert_eq!(parsed.value["c"][499]["f99"], "text");
    assert!(parse_yaml(manifest(500).as_bytes()).is_err(), "more than four times its size");
    let level = |at: usize| format!("l{at}: &l{at} [{}]\n", vec![format!("*l{}", at - 1); 9].join(","));
    let bomb = format!("l0: &l0 {{x: y}}\n{}", (1..9).map(level).collect::<String>());
    let merged = format!("{bomb}c: {{<<: {{x: *l8}}}}\n");
    for text in [bomb, merged, manifest(100_000)] {
        let error = parse_manifest(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("aliases make the document too large"), "{error}");
    }
}

#[test]
fn aliases_cannot_nest_a_document_deeper_than_its_limit() {
    // The comment makes room for the values: each alias repeats those before it.
    let document = |levels: usize| {
        let chain: Vec<String> = (1..levels).map(|at| format!("a{at}: &a{at} {{y: *a{}}}", at - 1)).collect();
        format!("# {}\na0: &a0 {{}}\n{}", "x".repeat(1024 * 1024), chain.join("\n"))
    };
    let error = parse_yaml(document(1000).as_bytes()).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 64 levels"), "{error}");
    assert!(parse_yaml(document(60).as_bytes()).is_ok());
}

#[test]
fn anchors_in_each_other_cannot_take_the_memory_of_the_server() {
    let nested: Vec<String> = (0..60).map(|at| format!("&a{at} [")).collect();
    let document = format!("{}{}{}", nested.join(""), "0,".repeat(1024 * 1024), "]".repeat(60));
    let error = parse_yaml(document.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("anchor"), "{error}");
}

#[test]
fn a_yaml_document_that_is_nested_too_deep_is_refused_before_it_is_parsed() {
    const SIZE: usize = 3 * 1024 * 1024;
    for start in ["[", "{a: [", "- ", "? ", "a: [", "\"]\": {", "- - ? "] {
        let error = parse_yaml(start.repeat(SIZE / start.len()).as_bytes()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("recursion limit exceeded") || text.contains("nested deeper"),
            "{start}: {text}"
        );
    }
    let line = "-".repeat(5000);
    let flat =
        parse_yaml(format!("# {line}\na: \"{}\"\nb: [{}]", "[".repeat(900), "[],".repeat(5000)).as_bytes());
    assert_eq!(flat.unwrap().value["b"].as_array().map(Vec::len), Some(5000));
    let text = json!({"a": "[".repeat(5000)});
    assert_eq!(parse_yaml(text.to_string().as_bytes()).unwrap().value, text, "JSON is read as JSON");
}

proptest! {
    #[test]
    fn a_document_without_aliases_is_never_too_large(
        keys in proptest::collection::vec("[a-z]{0,3}", 0..40),
        text in "\\PC{0,40}",
    ) {
        let items: Vec<Value> = keys.iter().map(|key| json!({key: null, "t": text, "": [[], {}, 0]})).collect();
        let value = json!(items);
        prop_assert_eq!(parse_yaml(value.to_string().as_bytes()).unwrap().value, value);
        let short = "[,]".replace(',', &"0,".repeat(keys.len()));
        prop_assert!(parse_yaml(short.as_bytes()).is_ok());
    }
}

#[test]
fn a_number_is_the_same_after_it_was_written_and_read_again() {
    for text in ["2.1111111111111102e26", "1.7777777777777778e-3", "0.1", "9007199254740993", "-1e-7"] {
        let first = parse_json(text.as_bytes()).unwrap().value;
        let again = parse_json(first.to_string().as_bytes()).unwrap().value;
        assert_eq!(again, first, "{text}");
        assert_eq!(first.as_f64(), text.parse().ok(), "{text}");
    }
}
