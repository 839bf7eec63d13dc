//! OpenAPI v3: one document for each group and version, and the index of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Document, DocumentError, Info, Object, ServedGroup, ServedVersion,
    definitions::Definitions,
    operations::{OBJECT_TYPES, Operation, paths},
    parameters::Parameter,
    schema::V3_PREFIX,
    standard::{GVK, kind},
};

/// The document at `/openapi/v3/apis/GROUP/VERSION`.
///
/// # Errors
///
/// A schema says what OpenAPI cannot say, two schemas have one name, or a kind has no schema. A keyword of a
/// kind is not valid, or its objects cannot be merged.
pub fn openapi_v3(info: &Info, group: &ServedGroup, version: &ServedVersion) -> Result<Value, DocumentError> {
    let definitions = Definitions::new(&group.group, version)?;
    definitions.check_kinds()?;
    let paths: Object = paths(&group.group, version, &definitions)?
        .iter()
        .map(|path| (path.template.clone(), path.item(operation_object, parameter)))
        .collect();
    Ok(json!({
        "openapi": "3.0.0",
        "info": {"title": info.title, "version": info.version},
        "paths": paths,
        "components": {
            "schemas": definitions.into_schemas(),
            "securitySchemes": {"BearerToken": bearer_token()},
        },
    }))
}

/// The document at `/openapi/v3`: where the other documents are. The keys are paths without the leading
/// `/openapi/v3/`, such as `apis/kitchen.dev/v1alpha1`.
pub fn openapi_v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a Document)>) -> Value {
    let paths: BTreeMap<_, _> = documents
        .into_iter()
        .map(|(path, document)| {
            let url = format!("/openapi/v3/{path}?hash={}", document.hash());
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

pub(crate) fn bearer_token() -> Value {
    json!({
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    })
}

/// Says which kind an operation is about, and what it does.
pub(crate) fn add_action(operation: &Operation, fields: &mut Object) {
    if let Some((action, owner, name)) = &operation.action {
        fields.insert("x-kubernetes-action".to_owned(), (*action).into());
        fields.insert(GVK.to_owned(), kind(&owner.group, &owner.version, name));
    }
}

fn operation_object(operation: &Operation) -> Object {
    let mut fields = Object::new();
    fields.insert("tags".to_owned(), json!([operation.tag]));
    fields.insert("description".to_owned(), operation.description.as_str().into());
    fields.insert("operationId".to_owned(), operation.id.as_str().into());
    if !operation.parameters.is_empty() {
        fields.insert("parameters".to_owned(), operation.parameters.iter().map(parameter).collect());
    }
    if let Some(body) = &operation.body {
        let mut request = Object::new();
        request.insert("content".to_owned(), content(body.media_types, &body.definition));
        if body.required {
            request.insert("required".to_owned(), true.into());
        }
        fields.insert("requestBody".to_owned(), Value::Object(request));
    }
    let media_types: Vec<&str> = OBJECT_TYPES
        .iter()
        .copied()
        .chain(operation.streams.then_some("application/json;stream=watch"))
        .collect();
    let mut responses: Object = operation
        .codes
        .iter()
        .map(|(code, text)| {
            (
                code.to_string(),
                json!({"description": text, "content": content(&media_types, &operation.reply)}),
            )
        })
        .collect();
    responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    fields.insert("responses".to_owned(), Value::Object(responses));
    add_action(operation, &mut fields);
    fields
}

fn content(media_types: &[&str], definition: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("{V3_PREFIX}{definition}")}});
    media_types.iter().map(|media_type| ((*media_type).to_owned(), schema.clone())).collect::<Object>().into()
}

fn parameter(parameter: &Parameter) -> Value {
    parameter.object("schema", json!({"type": parameter.value_type}))
}
