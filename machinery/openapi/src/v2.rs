//! OpenAPI v2: one document for all groups, which kube-aggregator merges into its own.

use serde_json::{Value, json};

use crate::{
    DocumentError, Info, Object, ServedGroup,
    definitions::Definitions,
    operations::{OBJECT_TYPES, Operation, paths},
    parameters::Parameter,
    schema::V3_PREFIX,
    v3::{add_action, bearer_token},
    walk::each_schema,
};

/// Prefix of references in OpenAPI v2.
const V2_PREFIX: &str = "#/definitions/";

/// The document at `/openapi/v2`.
///
/// # Errors
///
/// A schema says what OpenAPI cannot say, two schemas have one name, or a kind has no schema.
pub fn openapi_v2(info: &Info, groups: &[ServedGroup]) -> Result<Value, DocumentError> {
    let mut path_items = Object::new();
    let mut all = Object::new();
    for group in groups {
        for version in &group.versions {
            let definitions = Definitions::new(&group.group, version)?;
            for path in paths(&group.group, version, &definitions)? {
                path_items.insert(path.template.clone(), path.item(operation_object, parameter));
            }
            for (name, mut schema) in definitions.into_schemas() {
                lower(&mut schema);
                add_definition(&mut all, name, schema)?;
            }
        }
    }
    Ok(json!({
        "swagger": "2.0",
        "info": {"title": info.title, "version": info.version},
        "paths": path_items,
        "definitions": all,
        "securityDefinitions": {"BearerToken": bearer_token()},
        "security": [{"BearerToken": []}],
    }))
}

/// Adds a definition. The same one from another version brings only further kinds.
fn add_definition(all: &mut Object, name: String, mut schema: Value) -> Result<(), DocumentError> {
    let Some(known) = all.get_mut(&name) else {
        all.insert(name, schema);
        return Ok(());
    };
    let take =
        |schema: &mut Value| schema.as_object_mut().and_then(|fields| fields.remove(crate::standard::GVK));
    let (known_kinds, more_kinds) = (take(known), take(&mut schema));
    if *known != schema {
        return Err(DocumentError::Ambiguous { definition: name });
    }
    let mut kinds = Vec::new();
    for kind in [known_kinds, more_kinds]
        .into_iter()
        .flatten()
        .filter_map(|kinds| kinds.as_array().cloned())
        .flatten()
    {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if let (false, Some(known)) = (kinds.is_empty(), known.as_object_mut()) {
        known.insert(crate::standard::GVK.to_owned(), Value::Array(kinds));
    }
    Ok(())
}

/// Takes from a schema what v2 has not: defaults, which kube-apiserver leaves out too, and the `allOf` around
/// a reference, which v2 allows to stand beside a description.
fn lower(schema: &mut Value) {
    each_schema(schema, &mut |fields| {
        fields.remove("default");
        if let Some(Value::Array(parts)) = fields.remove("allOf") {
            for part in parts {
                if let Value::Object(part) = part {
                    fields.extend(part);
                }
            }
        }
        if let Some(Value::String(reference)) = fields.get_mut("$ref")
            && let Some(name) = reference.strip_prefix(V3_PREFIX)
        {
            *reference = format!("{V2_PREFIX}{name}");
        }
    });
}

fn operation_object(operation: &Operation) -> Object {
    let mut fields = Object::new();
    fields.insert("description".to_owned(), operation.description.as_str().into());
    let consumes = operation.body.as_ref().map_or(OBJECT_TYPES, |body| body.media_types);
    fields.insert("consumes".to_owned(), json!(consumes));
    let produces: Vec<&str> = OBJECT_TYPES
        .iter()
        .copied()
        .chain(operation.streams.then_some("application/json;stream=watch"))
        .collect();
    fields.insert("produces".to_owned(), json!(produces));
    fields.insert("schemes".to_owned(), json!(["https"]));
    fields.insert("tags".to_owned(), json!([operation.tag]));
    fields.insert("operationId".to_owned(), operation.id.as_str().into());
    let mut parameters: Vec<Value> = Vec::new();
    if let Some(body) = &operation.body {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(&body.definition)});
        if let (true, Some(fields)) = (body.required, parameter.as_object_mut()) {
            fields.insert("required".to_owned(), true.into());
        }
        parameters.push(parameter);
    }
    parameters.extend(operation.parameters.iter().map(parameter));
    if !parameters.is_empty() {
        fields.insert("parameters".to_owned(), Value::Array(parameters));
    }
    let mut responses: Object = operation
        .codes
        .iter()
        .map(|(code, text)| {
            (code.to_string(), json!({"description": text, "schema": reference(&operation.reply)}))
        })
        .collect();
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    fields.insert("responses".to_owned(), Value::Object(responses));
    add_action(operation, &mut fields);
    fields
}

fn reference(definition: &str) -> Value {
    json!({"$ref": format!("{V2_PREFIX}{definition}")})
}

fn parameter(parameter: &Parameter) -> Value {
    parameter.object("type", parameter.value_type.into())
}
