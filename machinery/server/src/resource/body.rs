//! Objects and patches in request bodies.

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_merge::{
    DecodeError, Parsed, PatchError, Patched, Strictness, decode_parsed, json_patch, merge_patch, parse_json,
    parse_yaml,
};
use machinery_openapi::Structure;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath, validate_metadata};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

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
struct OnlyMetadata {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Named {
    metadata: NamedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMetadata {
    name: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// Names by which a body says for which object it is.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
}

impl Body {
    /// Returns the name of the object, if it can be read.
    pub(crate) fn name(&self) -> Option<String> {
        self.address().name
    }

    /// Returns the names of the object, as far as they can be read.
    pub(crate) fn address(&self) -> Address {
        let parsed = match self.syntax {
            Syntax::Json => parse_json(&self.bytes).ok(),
            Syntax::Yaml => parse_yaml(&self.bytes).ok(),
        };
        let named = parsed.and_then(|parsed| Named::deserialize(parsed.value).ok());
        let metadata = named.map(|named| named.metadata).unwrap_or_default();
        Address {
            name: metadata.name,
            uid: metadata.uid.filter(|uid| !uid.is_empty()),
            version: metadata.resource_version.filter(|version| !matches!(version.as_str(), "" | "0")),
        }
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

impl Patch {
    /// Returns a document with the patch applied. Dropped fields become warnings.
    pub(crate) fn apply<O: Object>(
        &self,
        context: &RequestContext,
        kind: &Structure,
        document: &Value,
    ) -> Result<O, ApiError> {
        let resource = ResourceName::of::<O>();
        let Patched { value, mut findings } = self.patched(document)?;
        let checked = self
            .check_version(&resource, document, &value)
            .and_then(|()| check_type(&resource, &value))
            .and_then(|()| check_name(context, document, &value))
            .and_then(|()| check(context, &resource, kind, &value));
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
        if !self.names_version() {
            meta.resource_version = None;
        }
        if !context.subresource.is_empty() {
            meta.uid = None;
        }
        Ok(object)
    }

    /// Returns a document with the patch applied, whatever it is then.
    pub(super) fn patched(&self, document: &Value) -> Result<Patched, ApiError> {
        let patched = match self.kind {
            PatchKind::Json => json_patch(document, &self.bytes),
            PatchKind::Merge => merge_patch(document, &self.bytes),
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
        let parsed: Result<IgnoredAny, _> = serde_json::from_slice(&self.bytes);
        parsed
            .map(|_| ())
            .map_err(|error| ApiError::status(Reason::BadRequest, format!("the patch is malformed: {error}")))
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
fn without_empty_metadata<O: Object>(mut object: O) -> O {
    let meta = kube::Resource::meta_mut(&mut object);
    meta.labels.take_if(|labels| labels.is_empty());
    meta.annotations.take_if(|annotations| annotations.is_empty());
    meta.finalizers.take_if(|finalizers| finalizers.is_empty());
    meta.owner_references.take_if(|owners| owners.is_empty());
    meta.generate_name.take_if(|prefix| prefix.is_empty());
    object
}

/// Returns the fields of a document that the kind does not have, in Kubernetes' words.
fn unknown_fields(kind: &Structure, document: &Value) -> Vec<String> {
    kind.unknown(document).iter().map(|path| format!("unknown field {:?}", path.to_string())).collect()
}

fn warn(context: &RequestContext, findings: &[String]) {
    for finding in findings {
        context.warnings.add(finding);
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

/// Rejects a document of another type, and reports every structural error of one of this type.
fn check(
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
    let Some(metadata) = document.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return ApiError::Invalid(errors);
    };
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
