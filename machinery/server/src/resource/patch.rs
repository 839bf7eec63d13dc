//! Patches in request bodies.

use bytes::Bytes;
use machinery_merge::{
    DecodeError, Parsed, PatchError, Patched, StrategicPatch, Strictness, decode_parsed, json_patch,
    merge_patch,
};
use machinery_openapi::Structure;
use machinery_schema::Schema;
use machinery_validation::{FieldError, FieldPath};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::body::{
    check, check_type, not_decoded, read_metadata, unknown_fields, warn, without_empty_metadata,
};
use crate::{
    ApiError, Cause, Object, Reason, RequestContext, registry::update_problems, resource_name::ResourceName,
};

/// Supported types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// A merge patch that merges lists by the keys of their items.
    Strategic,
}

/// Patch in a request body.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    content: Content,
    strictness: Strictness,
}

#[derive(Clone, Debug)]
enum Content {
    Json(Bytes),
    Merge(Bytes),
    Strategic(StrategicPatch),
}

impl Patch {
    /// Returns the patch in a body. Only a strategic merge patch is parsed now.
    pub(crate) fn new(kind: PatchKind, bytes: Bytes, strictness: Strictness) -> Result<Self, ApiError> {
        let content = match kind {
            PatchKind::Json => Content::Json(bytes),
            PatchKind::Merge => Content::Merge(bytes),
            PatchKind::Strategic => {
                Content::Strategic(StrategicPatch::parse(&bytes).map_err(|error| patch_error(&error))?)
            }
        };
        Ok(Self { content, strictness })
    }

    /// Returns the content of a strategic merge patch, for a strategy that fills in keys of list items.
    pub(super) fn strategic_mut(&mut self) -> Option<&mut Value> {
        match &mut self.content {
            Content::Strategic(patch) => Some(patch.content_mut()),
            Content::Json(_) | Content::Merge(_) => None,
        }
    }

    /// Returns a document with the patch applied. Dropped fields become warnings.
    pub(crate) fn apply<O: Object>(
        &self,
        context: &RequestContext,
        kind: &Structure,
        document: &Value,
    ) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let Patched { value, mut findings, removes_only_named_items } =
            self.patched(document, kind.shape())?;
        let checked = self
            .check_version(&resource, document, &value)
            .and_then(|()| check_type(&resource, &value))
            .and_then(|()| check_name(context, document, &value))
            .and_then(|()| {
                let checked = check(context, &resource, kind, &value);
                checked.map_err(|error| with_changes(context, &resource, document, &value, error))
            });
        if let Err(error) = checked {
            // As upstream, the findings are reported whatever else is wrong.
            findings.extend(unknown_fields(kind, &value));
            self.report(context, findings)?;
            return Err(error);
        }
        let parsed = Parsed { value, ..Parsed::default() };
        // Strict findings of the patch and of the result are reported together.
        let decoded =
            decode_parsed(parsed, Strictness::Warn).map_err(|error| not_decoded(&resource, &error))?;
        findings.extend(decoded.findings());
        self.report(context, findings)?;
        let mut object = without_empty_metadata(decoded.value);
        let meta = kube::Resource::meta_mut(&mut object);
        if !self.names_version() && !removes_only_named_items {
            meta.resource_version = None;
        }
        if !context.subresource.is_empty() {
            meta.uid = None;
        }
        Ok(object)
    }

    /// Returns a document of that shape with the patch applied, whatever it is then.
    pub(super) fn patched(&self, document: &Value, shape: &Schema) -> Result<Patched, ApiError> {
        let patched = match &self.content {
            Content::Json(bytes) => json_patch(document, bytes),
            Content::Merge(bytes) => merge_patch(document, bytes),
            Content::Strategic(patch) => patch.apply(document, shape),
        };
        patched.map_err(|error| patch_error(&error))
    }

    /// Refuses a patch that is for another version of the document.
    fn check_version(
        &self,
        resource: &ResourceName,
        document: &Value,
        patched: &Value,
    ) -> Result<(), ApiError> {
        let version = text(patched, "/metadata/resourceVersion");
        if self.names_version()
            && version.parse::<i64>().is_ok()
            && version != text(document, "/metadata/resourceVersion")
            && version != "0"
        {
            return Err(resource.modified(text(document, "/metadata/name")));
        }
        Ok(())
    }

    /// Warns of unknown and duplicate fields, or refuses the patch for them.
    pub(super) fn report(&self, context: &RequestContext, findings: Vec<String>) -> Result<(), ApiError> {
        match self.strictness {
            Strictness::Ignore => {}
            Strictness::Warn => warn(context, &findings),
            Strictness::Strict if findings.is_empty() => {}
            // As upstream: 422, whereas a strict finding in a whole object is a 400.
            Strictness::Strict => return Err(invalid_patch(DecodeError::Strict { findings }.to_string())),
        }
        Ok(())
    }

    /// Refuses a body that is no JSON, whatever the object is.
    pub(crate) fn check_syntax(&self) -> Result<(), ApiError> {
        let (Content::Json(bytes) | Content::Merge(bytes)) = &self.content else { return Ok(()) };
        let parsed: Result<IgnoredAny, _> = serde_json::from_slice(bytes);
        parsed
            .map(|_| ())
            .map_err(|error| ApiError::status(Reason::BadRequest, format!("the patch is malformed: {error}")))
    }

    /// Returns true when the patch itself names the resourceVersion that it is for, or replaces what contains
    /// it. The one in a patched object is the server's else.
    fn names_version(&self) -> bool {
        const PATH: &str = "/metadata/resourceVersion";
        let names_it = |patch: &Value| patch.pointer(PATH).is_some_and(Value::is_string);
        let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        match &self.content {
            Content::Strategic(patch) => names_it(patch.content()),
            Content::Merge(bytes) => names_it(&parse(bytes)),
            Content::Json(bytes) => parse(bytes).as_array().into_iter().flatten().any(|operation| {
                let whole = operation["path"] == "" || operation["path"] == "/metadata";
                operation["path"] == PATH || (whole && operation["op"] != "test")
            }),
        }
    }
}

fn text<'v>(document: &'v Value, path: &str) -> &'v str {
    document.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Rejects a patched document with another name or UID than the old one. As upstream, the UID in a patch of a
/// subresource does not matter.
pub(crate) fn check_name(context: &RequestContext, old: &Value, patched: &Value) -> Result<(), ApiError> {
    let (given, name) = (text(patched, "/metadata/name"), text(old, "/metadata/name"));
    let uid = text(patched, "/metadata/uid");
    if context.subresource.is_empty() && !uid.is_empty() && text(old, "/metadata/uid") != uid {
        let field = FieldPath::new("metadata").child("uid");
        return Err(ApiError::Invalid(vec![FieldError::invalid(&field, uid, "field is immutable")]));
    }
    match given {
        "" => Err(crate::registry::no_name(name)),
        given if given == name => Ok(()),
        given => Err(crate::registry::another_name(given, name)),
    }
}

/// Adds what is wrong with the changes of the metadata to the error of an invalid document.
fn with_changes(
    context: &RequestContext,
    resource: &ResourceName,
    old: &Value,
    patched: &Value,
    error: ApiError,
) -> ApiError {
    let ApiError::Invalid(errors) = error else { return error };
    let (Some(old), Some(patched)) = (read_metadata(old), read_metadata(patched)) else {
        return ApiError::Invalid(errors);
    };
    match update_problems(&patched, &old, context, resource) {
        Ok(problems) => ApiError::Invalid(problems.into_iter().chain(errors).collect()),
        Err(error) => error,
    }
}

fn patch_error(error: &PatchError) -> ApiError {
    let reason = match error {
        PatchError::Malformed { .. } => Reason::BadRequest,
        PatchError::TooManyOperations { .. }
        | PatchError::CopiesTooMuch { .. }
        | PatchError::TooManyItems { .. }
        | PatchError::TooManyComparisons { .. } => Reason::RequestEntityTooLarge,
        PatchError::Inapplicable { .. } | PatchError::Unmergeable { .. } => {
            return invalid_patch(error.to_string());
        }
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
