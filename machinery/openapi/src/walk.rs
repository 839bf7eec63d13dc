//! The schemas inside a schema.

use serde_json::Value;

/// Calls `visit` on a schema and on every schema inside it, the inner ones first.
///
/// A property may have the name of a keyword. The walk therefore follows the values of keywords and not names
/// alone.
pub(crate) fn each_schema(schema: &mut Value, visit: &mut impl FnMut(&mut crate::Object)) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for (key, value) in fields.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for property in properties.values_mut() {
                    each_schema(property, visit);
                }
            }
            ("allOf", Value::Array(parts)) => {
                for part in parts {
                    each_schema(part, visit);
                }
            }
            ("items" | "additionalProperties", inner) => each_schema(inner, visit),
            _ => {}
        }
    }
    visit(fields);
}

/// Returns the references of a schema.
pub(crate) fn references(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each_schema(&mut schema.clone(), &mut |fields| {
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            found.push(reference.to_owned());
        }
    });
    found
}
