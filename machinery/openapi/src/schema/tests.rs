use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};

use super::*;

/// The converted schema of a type as one property of an object, and what becomes of the object.
fn converted<T: JsonSchema>() -> Result<Value, Problem> {
    let schema = schema_for!(T).to_value();
    let none = Object::new();
    let definitions = schema.get("$defs").and_then(Value::as_object).unwrap_or(&none);
    let full_name = |name: &str| {
        if name == "#" { "Root".to_owned() } else { format!("full.{name}") }
    };
    Converter { definitions, full_name: &full_name }.convert(&schema, "")
}

fn property<T: JsonSchema>() -> Value {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    struct Holder<T> {
        /// The field.
        field: T,
    }
    converted::<Holder<T>>().unwrap()["properties"]["field"].clone()
}

/// Intensity.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Documented {
    /// Not at
    /// all.
    Soft,
    Middling,
    /// Very.
    Hard,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
enum Plain {
    A,
    B,
}

/// A part.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Part {
    size: u16,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
#[serde(rename_all = "camelCase")]
enum Source {
    /// From a file.
    File(Part),
    /// From the network.
    Network { port: u16 },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
#[serde(tag = "type")]
enum Tagged {
    One { size: u16, name: String },
    Two { count: u16, name: String },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
#[serde(untagged)]
enum NumberOrText {
    Number(i32),
    Text(String),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is of interest")]
struct Tree {
    children: Vec<Tree>,
}

#[test]
fn rust_types_become_what_kubernetes_reads() {
    let enum_text = "The field.\n\nPossible enum values:\n - `\"Soft\"` Not at all.\n - `\"Hard\"` Very.";
    for (name, schema, expected) in [
        ("string", property::<String>(), json!({"type": "string"})),
        ("optional string", property::<Option<String>>(), json!({"type": "string"})),
        (
            "small integer",
            property::<Option<u16>>(),
            json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535}),
        ),
        ("large integer", property::<i64>(), json!({"type": "integer", "format": "int64"})),
        ("unsigned integer", property::<u32>(), json!({"type": "integer", "format": "int64", "minimum": 0})),
        ("any value", property::<Value>(), json!({"x-kubernetes-preserve-unknown-fields": true})),
        ("list", property::<Vec<String>>(), json!({"type": "array", "items": {"type": "string"}})),
        (
            "map",
            property::<BTreeMap<String, Option<i64>>>(),
            json!({"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}}),
        ),
        (
            "map of any values",
            property::<BTreeMap<String, Value>>(),
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        ),
        ("part", property::<Part>(), json!({"allOf": [{"$ref": "#/components/schemas/full.Part"}]})),
        (
            "optional part",
            property::<Option<Part>>(),
            json!({"allOf": [{"$ref": "#/components/schemas/full.Part"}]}),
        ),
        (
            "parts",
            property::<Vec<Part>>(),
            json!({"type": "array", "items": {"$ref": "#/components/schemas/full.Part"}}),
        ),
        ("words", property::<Plain>(), json!({"type": "string", "enum": ["A", "B"]})),
        ("optional words", property::<Option<Plain>>(), json!({"type": "string", "enum": ["A", "B"]})),
        ("number or text", property::<NumberOrText>(), json!({"x-kubernetes-int-or-string": true})),
        (
            "documented words",
            property::<Option<Documented>>(),
            json!({"type": "string", "enum": ["Middling", "Soft", "Hard"], "description": enum_text}),
        ),
    ] {
        let mut expected = expected;
        let fields = expected.as_object_mut().unwrap();
        fields.entry("description").or_insert_with(|| "The field.".into());
        assert_eq!(schema, expected, "{name}");
    }
}

#[test]
fn alternatives_become_one_object_with_the_properties_of_all() {
    let part = json!({"$ref": "#/components/schemas/full.Part"});
    assert_eq!(
        converted::<Source>().unwrap(),
        json!({
            "type": "object",
            "properties": {
                "file": {"description": "From a file.", "allOf": [part]},
                "network": {
                    "description": "From the network.",
                    "type": "object",
                    "properties": {
                        "port": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535}
                    },
                    "required": ["port"],
                },
            },
        })
    );
    let tagged = converted::<Tagged>().unwrap();
    assert_eq!(tagged["properties"]["type"], json!({"type": "string", "enum": ["One", "Two"]}));
    assert_eq!(tagged["required"], json!(["type", "name"]), "only what every alternative needs is needed");
    assert_eq!(converted::<NumberOrText>().unwrap(), json!({"x-kubernetes-int-or-string": true}));
}

#[test]
fn a_type_that_holds_itself_refers_to_itself() {
    assert_eq!(
        converted::<Tree>().unwrap()["properties"]["children"]["items"],
        json!({"$ref": "#/components/schemas/Root"})
    );
}

#[test]
fn what_openapi_cannot_say_is_an_error_that_says_where() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    struct Pair {
        both: (String, i32),
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    #[serde(untagged)]
    enum TextOrPart {
        Text(String),
        Part(Part),
    }
    let error = converted::<Pair>().unwrap_err();
    assert_eq!(error.path, "/properties/both/prefixItems");
    let error = converted::<TextOrPart>().unwrap_err();
    assert_eq!(error.problem, "its alternatives are not all objects, and have no union");
}

#[test]
fn bounds_keywords_and_bytes_are_written_as_in_openapi_3_0() {
    let none = Object::new();
    let converter = Converter { definitions: &none, full_name: &str::to_owned };
    for (schema, expected) in [
        (
            json!({"type": "integer", "exclusiveMinimum": 0, "title": "T", "examples": [1]}),
            json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true}),
        ),
        (json!({"type": "string", "contentEncoding": "base64"}), json!({"type": "string", "format": "byte"})),
        (
            json!({"type": "object", "additionalProperties": false, "properties": {"allOf": {"type": "boolean"}}}),
            json!({"type": "object", "properties": {"allOf": {"type": "boolean"}}}),
        ),
        (
            json!({"type": ["array", "null"], "items": true, "default": null, "x-kubernetes-list-type": "set"}),
            json!({
                "type": "array",
                "items": {"x-kubernetes-preserve-unknown-fields": true},
                "x-kubernetes-list-type": "set",
            }),
        ),
    ] {
        assert_eq!(converter.convert(&schema, "").unwrap(), expected, "{schema}");
    }
    for refused in [json!({"not": {}}), json!({"type": ["string", "integer"]}), json!(false)] {
        assert!(converter.convert(&refused, "").is_err(), "{refused}");
    }
}
