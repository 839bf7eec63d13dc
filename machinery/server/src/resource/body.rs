//! Objects and patches as callers send them.

use std::sync::Arc;

use bytes::Bytes;
use machinery_merge::{
    DecodeError, Decoded, Parsed, PatchError, Strictness, decode, decode_value, decode_yaml, json_patch,
    merge_patch, parse_json, parse_yaml,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    ApiError, Cause, Object, Reason, RequestContext,
    registry::Make,
    resource_name::ResourceName,
    stored::{Item, Stored},
};

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

/// An object as a caller sent it.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) syntax: Syntax,
    /// What happens to unknown and duplicate fields.
    pub(crate) strictness: Strictness,
}

/// The kinds of patches that are understood. Server-side apply gets its variant here when it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

/// A patch as a caller sent it.
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
    /// The name that the object has been given, if that can be read.
    pub(crate) fn name(&self) -> Option<String> {
        let named: Named = match self.syntax {
            Syntax::Json => serde_json::from_slice(&self.bytes).ok()?,
            Syntax::Yaml => Named::deserialize(parse_yaml(&self.bytes).ok()?.value).ok()?,
        };
        Some(named.metadata.name)
    }

    /// The object; what was dropped of it becomes warnings.
    pub(crate) fn decode<O: Object>(&self, context: &RequestContext) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let refuse = |error: &DecodeError| refuse(&resource, Reason::BadRequest, error);
        // What cannot be read here is reported by the decoding, with its place. The second reading is for a field that is
        // given twice, which the first does not take.
        let quick = || serde_json::from_slice(&self.bytes).ok();
        let slow = |parsed: Result<Parsed, DecodeError>| TypeMeta::deserialize(parsed.ok()?.value).ok();
        let type_meta = match self.syntax {
            Syntax::Json => quick().or_else(|| slow(parse_json(&self.bytes))),
            Syntax::Yaml => slow(parse_yaml(&self.bytes)),
        };
        check_type(&resource, type_meta)?;
        let decoded = match self.syntax {
            Syntax::Json => decode(&self.bytes, self.strictness),
            Syntax::Yaml => decode_yaml(&self.bytes, self.strictness),
        };
        Ok(warn(context, decoded.map_err(|error| refuse(&error))?))
    }
}

impl Patch {
    /// The object with the patch applied.
    pub(crate) fn apply<O: Object>(&self, context: &RequestContext, old: &Stored<O>) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let document: Value = serde_json::from_slice(&old.json()?)
            .map_err(|source| ApiError::internal("decoding the object to patch", source))?;
        let patched = match self.kind {
            PatchKind::Json => json_patch(&document, &self.bytes),
            PatchKind::Merge => merge_patch(&document, &self.bytes),
        };
        let patched = patched.map_err(|error| patch_error(&error))?;
        check_type(&resource, TypeMeta::deserialize(&patched).ok())?;
        let decoded = decode_value(patched, self.strictness).map_err(|error| {
            // As upstream: unknown fields are the request's fault, a result that is no such object is invalid.
            if matches!(error, DecodeError::Strict { .. }) {
                refuse(&resource, Reason::BadRequest, &error)
            } else {
                invalid_patch(error.to_string())
            }
        })?;
        Ok(warn(context, decoded))
    }
}

/// Makes objects of a patch, for a write that may have to be made again.
pub(crate) fn patching<O: Object>(patch: Patch, context: Arc<RequestContext>) -> Make<O> {
    Box::new(move |old| patch.apply(&context, old))
}

fn warn<T>(context: &RequestContext, decoded: Decoded<T>) -> T {
    for finding in decoded.findings() {
        context.warnings.add(finding);
    }
    decoded.value
}

/// An absent `apiVersion` or `kind` is taken for the expected one; another one is refused.
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

fn refuse(resource: &ResourceName, reason: Reason, error: &DecodeError) -> ApiError {
    let ResourceName { kind, version, .. } = resource;
    ApiError::status(reason, format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
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

/// A patch that the object cannot take. Of an invalid object kubectl shows the causes only, so there is one.
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
