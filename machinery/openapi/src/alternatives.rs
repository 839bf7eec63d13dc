//! Alternatives: `oneOf` and `anyOf`, which Kubernetes' OpenAPI has not.
//!
//! They become their union: an object that may have the properties of any alternative. The server still
//! rejects the values that the type rejects; the document is wider than the type.

use serde_json::Value;

use crate::{
    Object,
    words::{Words, is_null},
};

/// Merges the alternatives of a schema into the schema itself. The result has no `oneOf` and no `anyOf`, and
/// does not mention `null`. `resolve` finds what a reference refers to.
///
/// # Errors
///
/// The alternatives have no union: what stands in their way.
pub(crate) fn merge<'a>(
    mut schema: Object,
    resolve: &dyn Fn(&str) -> Option<&'a Value>,
) -> Result<Object, String> {
    drop_null(&mut schema);
    for keyword in ["oneOf", "anyOf"] {
        let Some(alternatives) = schema.remove(keyword) else {
            continue;
        };
        let Value::Array(mut alternatives) = alternatives else {
            return Err(format!("{keyword} is not a list"));
        };
        alternatives.retain(|alternative| !is_null(alternative));
        schema = merge_list(schema, alternatives, resolve)?;
    }
    Ok(schema)
}

fn merge_list<'a>(
    mut schema: Object,
    mut alternatives: Vec<Value>,
    resolve: &dyn Fn(&str) -> Option<&'a Value>,
) -> Result<Object, String> {
    if alternatives.len() < 2 {
        // What stands beside the alternatives, such as the field's own description, counts more.
        if let Some(Value::Object(only)) = alternatives.pop() {
            for (key, value) in merge(only, resolve)? {
                schema.entry(key).or_insert(value);
            }
        }
        return Ok(schema);
    }
    if is_integer_or_string(&alternatives) {
        schema.insert("x-kubernetes-int-or-string".to_owned(), Value::Bool(true));
        return Ok(schema);
    }
    let mut required: Option<Vec<Value>> = None;
    for alternative in alternatives {
        let resolved = alternative.get("$ref").and_then(Value::as_str).and_then(resolve).cloned();
        let Value::Object(alternative) = resolved.unwrap_or(alternative) else {
            return Err("one of its alternatives is not an object".to_owned());
        };
        let mut alternative = merge(alternative, resolve)?;
        if alternative.get("type").and_then(Value::as_str) != Some("object") {
            return Err("its alternatives are not all objects, and have no union".to_owned());
        }
        let needed = match alternative.remove("required") {
            Some(Value::Array(needed)) => needed,
            _ => Vec::new(),
        };
        required = Some(match required {
            None => needed,
            Some(so_far) => so_far.into_iter().filter(|name| needed.contains(name)).collect(),
        });
        add_properties(&mut schema, alternative)?;
    }
    let required = required.unwrap_or_default();
    if !required.is_empty() {
        let all = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.extend(required);
        }
    }
    schema.insert("type".to_owned(), "object".into());
    Ok(schema)
}

fn add_properties(schema: &mut Object, mut alternative: Object) -> Result<(), String> {
    let Some(Value::Object(properties)) = alternative.remove("properties") else {
        return Ok(());
    };
    let described = alternative.remove("description");
    let only_one = properties.len() == 1;
    let all = schema.entry("properties").or_insert_with(|| Value::Object(Object::new()));
    let Value::Object(all) = all else {
        return Err("its properties are not an object".to_owned());
    };
    for (name, mut property) in properties {
        // The name of the only property of an alternative is the name of a Rust variant: what is said of the
        // variant is said of the property.
        if let (true, Some(text), Some(fields)) = (only_one, &described, property.as_object_mut()) {
            fields.entry("description").or_insert_with(|| text.clone());
        }
        match all.get(&name) {
            None => {
                all.insert(name, property);
            }
            Some(known) if *known == property => {}
            Some(known) => {
                let words = |schema: &Value| schema.as_object().and_then(Words::of);
                let both = words(known).zip(words(&property)).and_then(|(known, more)| known.and(more));
                let both = both.ok_or_else(|| format!("its alternatives disagree about {name}"))?;
                let mut merged = Object::new();
                both.write_to(&mut merged);
                all.insert(name, Value::Object(merged));
            }
        }
    }
    Ok(())
}

/// `type: [string, null]` becomes `type: string`.
fn drop_null(schema: &mut Object) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

fn is_integer_or_string(alternatives: &[Value]) -> bool {
    let types: Vec<_> =
        alternatives.iter().map(|alternative| alternative.get("type").and_then(Value::as_str)).collect();
    matches!(types.as_slice(), [Some("integer"), Some("string")] | [Some("string"), Some("integer")])
}
