//! Objects in request bodies.

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_merge::{DecodeError, Parsed, Strictness, decode_parsed, parse_json, parse_yaml};
use machinery_openapi::Structure;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath, validate_metadata};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{ApiError, Object, Reason, RequestContext, resource_name::ResourceName};

/// Syntax of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

/// Object in a request body.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) syntax: Syntax,
    /// Treatment of unknown and duplicate fields.
    pub(crate) strictness: Strictness,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(Deserialize)]
struct NamedMetadata {
    name: Option<String>,
}

impl Body {
    /// Returns the name of the object, if it can be read.
    pub(crate) fn name(&self) -> Option<String> {
        Named::deserialize(self.value()?).ok()?.metadata.name
    }

    /// Returns the metadata of the object; empty when they cannot be read.
    pub(crate) fn metadata(&self) -> ObjectMeta {
        self.value().and_then(|value| read_metadata(&value)).unwrap_or_default()
    }

    fn value(&self) -> Option<Value> {
        let parsed = match self.syntax {
            Syntax::Json => parse_json(&self.bytes),
            Syntax::Yaml => parse_yaml(&self.bytes),
        };
        Some(parsed.ok()?.value)
    }

    /// Returns the object. Dropped fields become warnings.
    pub(crate) fn decode<O: Object>(
        &self,
        context: &RequestContext,
        kind: &Structure,
    ) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let parsed = self.parse(&resource)?;
        if let Err(error) = check(context, &resource, kind, &parsed.value) {
            return Err(self.with_unknown(context, &resource, kind, &parsed, error));
        }
        let decoded =
            decode_parsed(parsed, self.strictness).map_err(|error| not_decoded(&resource, &error))?;
        warn(context, &decoded.findings());
        Ok(without_empty_metadata(decoded.value))
    }
}

impl Body {
    /// Returns the document.
    pub(super) fn parse(&self, resource: &ResourceName) -> Result<Parsed, ApiError> {
        let parsed = match self.syntax {
            Syntax::Json => parse_json(&self.bytes),
            Syntax::Yaml => parse_yaml(&self.bytes),
        };
        parsed.map_err(|error| refuse(resource, &error))
    }

    /// Reports the unknown fields of a document that is invalid: warns, or refuses the document for them.
    fn with_unknown(
        &self,
        context: &RequestContext,
        resource: &ResourceName,
        kind: &Structure,
        parsed: &Parsed,
        error: ApiError,
    ) -> ApiError {
        if !matches!(error, ApiError::Invalid(_)) || self.strictness == Strictness::Ignore {
            return error;
        }
        let duplicate = parsed.duplicate_fields.iter().map(|path| format!("duplicate field {path:?}"));
        let findings: Vec<String> =
            unknown_fields(kind, &parsed.value).into_iter().chain(duplicate).collect();
        if self.strictness == Strictness::Strict && !findings.is_empty() {
            return refuse(resource, &DecodeError::Strict { findings });
        }
        warn(context, &findings);
        error
    }
}

/// Returns the object that an apply has merged.
pub(crate) fn decode_merged<O: Object>(
    context: &RequestContext,
    resource: &ResourceName,
    kind: &Structure,
    merged: Value,
) -> Result<O, ApiError> {
    check(context, resource, kind, &merged)?;
    let parsed = Parsed { value: merged, ..Parsed::default() };
    let decoded = decode_parsed(parsed, Strictness::Ignore).map_err(|error| not_decoded(resource, &error))?;
    Ok(without_empty_metadata(decoded.value))
}

/// Drops the empty lists and maps of the metadata, as Go's encoder does: they are neither stored nor owned.
pub(super) fn without_empty_metadata<O: Object>(mut object: O) -> O {
    let meta = kube::Resource::meta_mut(&mut object);
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
    meta.generate_name.take_if(|prefix| prefix.is_empty());
    object
}

/// Returns the fields of a document that the kind does not have, in Kubernetes' words.
pub(super) fn unknown_fields(kind: &Structure, document: &Value) -> Vec<String> {
    kind.unknown(document).iter().map(|path| format!("unknown field {:?}", path.to_string())).collect()
}

pub(super) fn warn(context: &RequestContext, findings: &[String]) {
    for finding in findings {
        context.warnings.add(finding);
    }
}

/// Rejects a document of another type, and reports every structural error of one of this type.
pub(super) fn check(
    context: &RequestContext,
    resource: &ResourceName,
    structure: &Structure,
    document: &Value,
) -> Result<(), ApiError> {
    check_type(resource, document)?;
    let errors = structure.check(document);
    if errors.is_empty() { Ok(()) } else { Err(with_metadata(context, resource, document, errors)) }
}

/// Returns the error of a document with structural errors. As upstream, metadata that cannot be read and
/// another namespace come before these, and invalid metadata is reported together with them.
fn with_metadata(
    context: &RequestContext,
    resource: &ResourceName,
    document: &Value,
    errors: Vec<FieldError>,
) -> ApiError {
    let none = json!({});
    let metadata = document.get("metadata").filter(|metadata| !metadata.is_null()).unwrap_or(&none);
    let parsed = Parsed { value: json!({"metadata": metadata}), ..Parsed::default() };
    let mut metadata = match decode_parsed::<OnlyMetadata>(parsed, Strictness::Ignore) {
        Ok(decoded) => decoded.value.metadata,
        Err(error) => return refuse(resource, &error),
    };
    let namespaced = !context.namespace.is_empty();
    if let Err(error) = crate::registry::match_namespace(&mut metadata, context, namespaced) {
        return error;
    }
    crate::registry::name_new(&mut metadata);
    // A subresource does not write the metadata.
    let mut all =
        if context.subresource.is_empty() { validate_metadata(&metadata, namespaced) } else { Vec::new() };
    all.extend(errors);
    ApiError::Invalid(all)
}

/// Returns the metadata of a document, if they can be read.
pub(super) fn read_metadata(document: &Value) -> Option<ObjectMeta> {
    ObjectMeta::deserialize(document.get("metadata")?).ok()
}

/// Rejects another `apiVersion` or `kind`. An absent one counts as the expected one.
pub(super) fn check_type(resource: &ResourceName, document: &Value) -> Result<(), ApiError> {
    let Ok(found) = TypeMeta::deserialize(document) else { return Ok(()) };
    let expected = resource.api_version();
    if !found.api_version.is_empty() && found.api_version != expected {
        let message = format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            found.api_version
        );
        return Err(ApiError::status(Reason::BadRequest, message));
    }
    if !found.kind.is_empty() && found.kind != resource.kind {
        let message = format!(
            "the kind in the data ({}) does not match the expected kind ({})",
            found.kind, resource.kind
        );
        return Err(ApiError::status(Reason::BadRequest, message));
    }
    Ok(())
}

pub(super) fn refuse(resource: &ResourceName, error: &DecodeError) -> ApiError {
    let ResourceName { kind, version, .. } = resource;
    let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
    ApiError::status(Reason::BadRequest, message)
}

/// Maps a failed decoding as kube-apiserver does for custom resources: what the schema says of an object is a
/// 422, what concerns its type or its metadata a 400.
pub(super) fn not_decoded(resource: &ResourceName, error: &DecodeError) -> ApiError {
    match error {
        DecodeError::WrongType { path, message } if !is_typed(path) => {
            let field = FieldPath::new(path);
            ApiError::Invalid(vec![FieldError::new(FieldErrorKind::Invalid, &field, message)])
        }
        _ => refuse(resource, error),
    }
}

/// Returns true when a path belongs to the fields that every kind has.
fn is_typed(path: &str) -> bool {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    matches!(first, "" | "apiVersion" | "kind" | "metadata")
}
