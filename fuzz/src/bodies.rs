//! Objects in request bodies.

use std::{fmt::Debug, sync::LazyLock};

use evacuation_api::{Evacuation, EvacuationResponder, NodeEvacuation, NodeEvacuationRule};
use machinery_merge::{Parsed, Strictness, decode_parsed, parse_json, parse_yaml};
use machinery_openapi::{GroupVersion, Structure};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, to_value};

/// Reads a body as JSON.
pub(crate) fn json(input: &[u8]) {
    if let Ok(parsed) = parse_json(input) {
        decode_each(&parsed.value);
    }
}

/// Reads a body as YAML.
///
/// What YAML says can be said in JSON, is not much larger than it is written, and is one document. JSON says
/// the same when the parser of YAML reads it.
pub(crate) fn yaml(input: &[u8]) {
    if let Ok(json) = parse_json(input) {
        let document = [b"---\n", input].concat();
        if let Ok(yaml) = parse_yaml(&document) {
            assert_eq!(without_sign_of_zero(yaml.value), without_sign_of_zero(json.value), "JSON as YAML");
            assert_eq!(yaml.duplicate_fields, json.duplicate_fields, "JSON as YAML");
        }
    }
    let Ok(parsed) = parse_yaml(input) else { return };
    let text = parsed.value.to_string();
    let read = parse_json(text.as_bytes()).map(|again| again.value.to_string());
    assert_eq!(read.as_ref().ok(), Some(&text), "what YAML says can be said in JSON");
    let size = size(&parsed.value);
    assert!(size <= (input.len() + 1) * 4, "{size} from {} bytes", input.len());
    if !parsed.value.is_null() {
        let two = [input, b"\n---\nb: 2\n"].concat();
        assert!(parse_yaml(&two).is_err(), "two documents: {}", String::from_utf8_lossy(&two));
    }
    decode_each(&parsed.value);
}

/// The integer `-0` of YAML is 0.
fn without_sign_of_zero(value: Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => Value::from(0),
        Value::Array(items) => items.into_iter().map(without_sign_of_zero).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, field)| (key, without_sign_of_zero(field))).collect()
        }
        other => other,
    }
}

/// Number of values and of the bytes of their texts.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len(),
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>(),
        _ => 1,
    }
}

fn decode_each(document: &Value) {
    static EVACUATION: LazyLock<Structure> = LazyLock::new(structure::<Evacuation>);
    static RESPONDER: LazyLock<Structure> = LazyLock::new(structure::<EvacuationResponder>);
    static DRAIN: LazyLock<Structure> = LazyLock::new(structure::<NodeEvacuation>);
    static RULE: LazyLock<Structure> = LazyLock::new(structure::<NodeEvacuationRule>);
    decode::<Evacuation>(document, &EVACUATION);
    decode::<EvacuationResponder>(document, &RESPONDER);
    decode::<NodeEvacuation>(document, &DRAIN);
    decode::<NodeEvacuationRule>(document, &RULE);
}

/// Checks a document against the schema of a kind and decodes it. An object that was decoded is stored as
/// what reads as the same object.
fn decode<T>(document: &Value, structure: &Structure)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let errors = structure.check(document);
    let decoded = decode_parsed::<T>(parsed(document.clone()), Strictness::Warn);
    let Some(decoded) = decoded.ok().filter(|_| errors.is_empty()) else { return };
    let stored = to_value(&decoded.value).unwrap_or_else(|error| panic!("not encoded: {error}"));
    let errors = structure.check(&stored);
    assert!(errors.is_empty(), "{stored}: {errors:?}");
    let again = decode_parsed::<T>(parsed(stored), Strictness::Strict);
    let again = again.unwrap_or_else(|error| panic!("not decoded again: {error}"));
    assert_eq!(again.value, decoded.value);
}

fn parsed(value: Value) -> Parsed {
    Parsed { value, ..Parsed::default() }
}

fn structure<T: kube::Resource<DynamicType = ()> + JsonSchema>() -> Structure {
    let group_version = GroupVersion { group: T::group(&()).into(), version: T::version(&()).into() };
    let schema = SchemaGenerator::new(SchemaSettings::draft2020_12()).into_root_schema_for::<T>();
    let structure = Structure::new(&T::kind(&()), &group_version, &schema);
    structure.unwrap_or_else(|error| panic!("{}: {error}", T::kind(&())))
}
