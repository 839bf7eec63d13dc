//! From a document to a type, noticing fields that the type does not know.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    DecodeError, Parsed,
    finding::{self, MAX_FINDINGS, findings},
    parse::{parse_json, parse_yaml},
    value::Source,
};

/// Treatment of unknown and duplicate fields: the parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// They are dropped silently.
    Ignore,
    /// They are dropped and reported in [`Decoded`]. The default of Kubernetes' API.
    #[default]
    Warn,
    /// They are a [`DecodeError::Strict`].
    Strict,
}

/// Decoded object, and the fields that were dropped. [`Strictness::Ignore`] leaves both lists empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded<T> {
    /// The object.
    pub value: T,
    /// The paths of the fields that the type does not know, such as `spec.requesters[0].nmae`: at most 100,
    /// each cut to 256 bytes.
    pub unknown_fields: Vec<String>,
    /// The paths of the fields that are given more than once: at most 100, each cut to 256 bytes. The last
    /// one counts.
    pub duplicate_fields: Vec<String>,
}

impl<T> Decoded<T> {
    /// Returns the dropped fields in Kubernetes' words, such as `unknown field "spec.foo"`: one `Warning`
    /// header each.
    pub fn findings(&self) -> Vec<String> {
        findings(&self.unknown_fields, &self.duplicate_fields)
    }
}

/// Reads an object from JSON.
///
/// A field that is `null` counts as absent, as it does for Go's decoder, unless it is free-form. Of a field
/// that is given twice, the last counts. Unknown fields are hidden in a type that is flattened
/// (`#[serde(flatten)]`) or internally tagged. Free-form fields, such as `fieldsV1` of managed fields, have
/// no unknown fields.
///
/// # Errors
///
/// [`DecodeError::Malformed`] when it is not JSON, [`DecodeError::WrongType`] with the path when it is not a
/// `T`, and, when the decoding is strict, [`DecodeError::Strict`] when fields are unknown or given twice.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], strictness: Strictness) -> Result<Decoded<T>, DecodeError> {
    decode_parsed(parse_json(bytes)?, strictness)
}

/// Reads an object from YAML. Everything else is as in [`decode`].
pub fn decode_yaml<T: DeserializeOwned>(
    bytes: &[u8],
    strictness: Strictness,
) -> Result<Decoded<T>, DecodeError> {
    decode_parsed(parse_yaml(bytes)?, strictness)
}

/// Reads an object from a parsed document. Everything else is as in [`decode`].
///
/// # Errors
///
/// Those of [`decode`] but for [`DecodeError::Malformed`].
pub fn decode_parsed<T: DeserializeOwned>(
    parsed: Parsed,
    strictness: Strictness,
) -> Result<Decoded<T>, DecodeError> {
    let Parsed { value, duplicate_fields } = parsed;
    let mut unknown_fields = Vec::new();
    let mut note = |path: &serde_ignored::Path<'_>| {
        if unknown_fields.len() < MAX_FINDINGS {
            unknown_fields.push(finding::path(&FieldPath(path)));
        }
    };
    let object = deserialize(value, &mut note).map_err(|error| wrong_type(&error))?;
    let decoded = match strictness {
        Strictness::Ignore => {
            Decoded { value: object, unknown_fields: Vec::new(), duplicate_fields: Vec::new() }
        }
        Strictness::Warn | Strictness::Strict => Decoded { value: object, unknown_fields, duplicate_fields },
    };
    let findings = decoded.findings();
    if strictness == Strictness::Strict && !findings.is_empty() {
        return Err(DecodeError::Strict { findings });
    }
    Ok(decoded)
}

/// Reads an object from a value, and calls `note` for each field that the type does not know.
pub(crate) fn deserialize<T: DeserializeOwned>(
    value: Value,
    note: &mut impl FnMut(&serde_ignored::Path<'_>),
) -> Result<T, serde_path_to_error::Error<serde_json::Error>> {
    let mut note = |path: serde_ignored::Path<'_>| note(&path);
    serde_path_to_error::deserialize(serde_ignored::Deserializer::new(Source(value), &mut note))
}

fn wrong_type(error: &serde_path_to_error::Error<serde_json::Error>) -> DecodeError {
    let path = match error.path().to_string().as_str() {
        "." => String::new(),
        path => path.to_owned(),
    };
    DecodeError::WrongType { path, message: error.inner().to_string() }
}

/// The path as Kubernetes writes it. Options and newtypes are steps of Rust's and not of the document's.
struct FieldPath<'a>(&'a serde_ignored::Path<'a>);

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use serde_ignored::Path;
        match self.0 {
            Path::Root => Ok(()),
            Path::Seq { parent, index } => write!(formatter, "{}[{index}]", FieldPath(parent)),
            Path::Map { parent: Path::Root, key } => formatter.write_str(key),
            Path::Map { parent, key } => write!(formatter, "{}.{key}", FieldPath(parent)),
            Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
                FieldPath(parent).fmt(formatter)
            }
        }
    }
}
