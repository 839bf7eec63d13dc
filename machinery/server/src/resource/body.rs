//! Objects and patches in request bodies.

use bytes::Bytes;
use machinery_merge::{
    DecodeError, Parsed, PatchError, Patched, Strictness, decode_parsed, json_patch, merge_patch, parse_json,
    parse_yaml,
};
use machinery_openapi::Structure;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use serde::Deserialize;
use serde_json::Value;

use crate::{ApiError, Cause, Object, Reason, RequestContext, resource_name::ResourceName};

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

/// Supported types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

/// Patch in a request body.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub(crate) bytes: Bytes,
    pub(crate) kind: PatchKind,
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
struct Named {
    metadata: NamedMetadata,
}

#[derive(Deserialize)]
struct NamedMetadata {
    name: String,
}

impl Body {
    /// Returns the name of the object, if it can be read.
    pub(crate) fn name(&self) -> Option<String> {
        let named: Named = match self.syntax {
            Syntax::Json => serde_json::from_slice(&self.bytes).ok()?,
            Syntax::Yaml => Named::deserialize(parse_yaml(&self.bytes).ok()?.value).ok()?,
        };
        Some(named.metadata.name)
    }

    /// Returns the object. Dropped fields become warnings.
    pub(crate) fn decode<O: Object>(
        &self,
        context: &RequestContext,
        kind: &Structure,
    ) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let parsed = match self.syntax {
            Syntax::Json => parse_json(&self.bytes),
            Syntax::Yaml => parse_yaml(&self.bytes),
        };
        let parsed = parsed.map_err(|error| refuse(&resource, &error))?;
        check(&resource, kind, &parsed.value)?;
        let decoded =
            decode_parsed(parsed, self.strictness).map_err(|error| not_decoded(&resource, &error))?;
        warn(context, &decoded.findings());
        Ok(decoded.value)
    }
}

impl Patch {
    /// Returns a document with the patch applied. Dropped fields become warnings.
    pub(crate) fn apply<O: Object>(
        &self,
        context: &RequestContext,
        kind: &Structure,
        document: &Value,
    ) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let patched = match self.kind {
            PatchKind::Json => json_patch(document, &self.bytes),
            PatchKind::Merge => merge_patch(document, &self.bytes),
        };
        let Patched { value, mut findings } = patched.map_err(|error| patch_error(&error))?;
        check(&resource, kind, &value)?;
        let parsed = Parsed { value, ..Parsed::default() };
        // Strict findings of the patch and of the result are reported together.
        let decoded =
            decode_parsed(parsed, Strictness::Warn).map_err(|error| not_decoded(&resource, &error))?;
        findings.extend(decoded.findings());
        match self.strictness {
            Strictness::Ignore => {}
            Strictness::Warn => warn(context, &findings),
            Strictness::Strict if findings.is_empty() => {}
            // As upstream: 422, whereas a strict finding in a whole object is a 400.
            Strictness::Strict => return Err(invalid_patch(DecodeError::Strict { findings }.to_string())),
        }
        let mut object = decoded.value;
        if !self.names_version() {
            kube::Resource::meta_mut(&mut object).resource_version = None;
        }
        Ok(object)
    }

    /// Returns true when the patch itself names the resourceVersion that it is for. The one in a patched
    /// object is the server's.
    fn names_version(&self) -> bool {
        const PATH: &str = "/metadata/resourceVersion";
        let Ok(patch) = serde_json::from_slice::<Value>(&self.bytes) else { return false };
        match self.kind {
            PatchKind::Merge => patch.pointer(PATH).is_some_and(Value::is_string),
            PatchKind::Json => {
                patch.as_array().into_iter().flatten().any(|operation| operation["path"] == PATH)
            }
        }
    }
}

/// Returns the object that an apply has merged.
pub(crate) fn decode_merged<O: Object>(
    resource: &ResourceName,
    kind: &Structure,
    merged: Value,
) -> Result<O, ApiError> {
    check(resource, kind, &merged)?;
    let parsed = Parsed { value: merged, ..Parsed::default() };
    let decoded = decode_parsed(parsed, Strictness::Ignore).map_err(|error| not_decoded(resource, &error))?;
    Ok(decoded.value)
}

fn warn(context: &RequestContext, findings: &[String]) {
    for finding in findings {
        context.warnings.add(finding);
    }
}

/// Rejects a document of another type, and reports every structural error of one of this type.
fn check(resource: &ResourceName, structure: &Structure, document: &Value) -> Result<(), ApiError> {
    check_type(resource, TypeMeta::deserialize(document).ok())?;
    let errors = structure.check(document);
    if errors.is_empty() { Ok(()) } else { Err(ApiError::Invalid(errors)) }
}

/// Rejects another `apiVersion` or `kind`. An absent one counts as the expected one.
fn check_type(resource: &ResourceName, found: Option<TypeMeta>) -> Result<(), ApiError> {
    let Some(found) = found else { return Ok(()) };
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

fn refuse(resource: &ResourceName, error: &DecodeError) -> ApiError {
    let ResourceName { kind, version, .. } = resource;
    let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
    ApiError::status(Reason::BadRequest, message)
}

/// Maps a failed decoding as kube-apiserver does for custom resources: what the schema says of an object is a
/// 422, what concerns its type or its metadata a 400.
fn not_decoded(resource: &ResourceName, error: &DecodeError) -> ApiError {
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

fn patch_error(error: &PatchError) -> ApiError {
    let reason = match error {
        PatchError::Malformed { .. } => Reason::BadRequest,
        PatchError::TooManyOperations { .. } | PatchError::CopiesTooMuch { .. } => {
            Reason::RequestEntityTooLarge
        }
        PatchError::Inapplicable { .. } => return invalid_patch(error.to_string()),
    };
    ApiError::status(reason, error.to_string())
}

/// Failure of a patch that does not fit the object. kubectl shows only the causes of an invalid object, so
/// there is one.
fn invalid_patch(message: String) -> ApiError {
    ApiError::Status {
        reason: Reason::Invalid,
        causes: vec![Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: message.clone(),
            field: "patch".to_owned(),
        }],
        message,
        retry_after_seconds: None,
    }
}
