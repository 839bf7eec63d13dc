//! The kinds and their fields, from the types' own schemas.

use std::{collections::BTreeSet, fmt::Write as _};

use evacuation_api::{
    Evacuation, EvacuationResponder, EvacuationResponse, EvacuationReview, NodeEvacuation,
    NodeEvacuationRule, ResponderEntry, SelfEvacuation,
};
use schemars::{Schema, schema_for};
use serde_json::Value;

/// Kubernetes' own types, which its documentation describes.
const ELSEWHERE: &[&str] = &["ObjectMeta", "Condition", "Time", "LabelSelector"];

pub(crate) fn page() -> String {
    let mut text = String::from(
        "<!-- Made by `cargo xtask generate` from the types in api/. -->\n# evacuation.dev/v1alpha1\n\n\
         `kubectl explain evacuation.spec` shows the same.\n",
    );
    let kinds = [
        ("Evacuation", schema_for!(Evacuation)),
        ("EvacuationResponder", schema_for!(EvacuationResponder)),
        ("NodeEvacuation", schema_for!(NodeEvacuation)),
        ("NodeEvacuationRule", schema_for!(NodeEvacuationRule)),
        ("SelfEvacuation", schema_for!(SelfEvacuation)),
        ("EvacuationResponse", schema_for!(EvacuationResponse)),
        ("EvacuationReview", schema_for!(EvacuationReview)),
        (
            "ResponderEntry (the annotation evacuation.dev/responders holds a list of them)",
            schema_for!(ResponderEntry),
        ),
    ];
    let mut told = BTreeSet::new();
    for (title, schema) in &kinds {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n## {title}\n");
        tell(&mut text, schema.as_value());
        for (name, definition) in definitions(schema) {
            let foreign = ELSEWHERE.iter().any(|known| name.ends_with(known)) || name.contains("k8s");
            if !foreign && told.insert(name.clone()) {
                let _ = write!(text, "\n### {name}\n");
                tell(&mut text, definition);
            }
        }
    }
    text
}

fn definitions(schema: &Schema) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("$defs").and_then(Value::as_object).into_iter().flatten()
}

/// A description and a table of fields, or of the words of an enumeration.
fn tell(text: &mut String, schema: &Value) {
    if let Some(description) = schema.get("description").and_then(Value::as_str) {
        let _ = write!(text, "\n{description}\n");
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        text.push_str("\n| field | type | |\n| --- | --- | --- |\n");
        for (name, property) in properties {
            let mark = if required.contains(&name.as_str()) { ", required" } else { "" };
            let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
            let description = description.replace('\n', " ");
            let _ = writeln!(text, "| `{name}` | {}{mark} | {description} |", type_of(property));
        }
    }
    let words = schema.get("oneOf").and_then(Value::as_array);
    if let Some(words) = words {
        text.push_str("\n| word | |\n| --- | --- |\n");
        for word in words {
            let name = word.get("const").and_then(Value::as_str).unwrap_or_default();
            let description = word.get("description").and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(text, "| `{name}` | {} |", description.replace('\n', " "));
        }
    }
}

/// The type of a field in a word or two.
fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return reference.rsplit(['/', '.']).next().unwrap_or_default().to_owned();
    }
    for key in ["anyOf", "allOf"] {
        let choices = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        if let Some(choice) =
            choices.into_iter().find(|choice| choice.get("type") != Some(&Value::from("null")))
        {
            return type_of(choice);
        }
    }
    match schema.get("type") {
        Some(Value::String(word)) if word == "array" => {
            format!("list of {}", schema.get("items").map_or_else(|| "anything".to_owned(), type_of))
        }
        Some(Value::String(word)) => scalar(schema, word),
        Some(Value::Array(words)) => {
            let word =
                words.iter().filter_map(Value::as_str).find(|word| *word != "null").unwrap_or("anything");
            if word == "array" {
                format!("list of {}", schema.get("items").map_or_else(|| "anything".to_owned(), type_of))
            } else {
                scalar(schema, word)
            }
        }
        _ => "anything".to_owned(),
    }
}

fn scalar(schema: &Value, word: &str) -> String {
    if schema.get("format").and_then(Value::as_str) == Some("date-time") {
        "time".to_owned()
    } else {
        word.to_owned()
    }
}
