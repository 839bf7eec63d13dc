//! Patches of Kubernetes objects and strict decoding: pure functions on bytes and [`serde_json::Value`].
//!
//! # Patches
//!
//! [`json_patch()`] (RFC 6902, `application/json-patch+json`) and [`merge_patch`] (RFC 7386,
//! `application/merge-patch+json`). A strategic merge patch needs the merge keys of Go's struct tags; kinds
//! that are not built into kube-apiserver do not have it, and a server answers 415 as it does for custom
//! resources. Server-side apply (`application/apply-patch+yaml`) is in `machinery-apply`.
//!
//! # Decoding
//!
//! [`decode`] reads a type from JSON, [`decode_yaml`] from YAML, [`decode_parsed`] from a parsed document.
//! Each reports unknown and duplicate fields by path, as `fieldValidation` asks for it, and names the path of
//! a field of a wrong type. [`to_yaml`] writes YAML.

mod decode;
mod error;
mod parse;
mod patch;
mod value;
mod write;

pub use decode::{Decoded, Strictness, decode, decode_parsed, decode_yaml};
pub use error::{DecodeError, EncodeError, PatchError};
pub use parse::{Parsed, parse_json, parse_yaml};
pub use patch::{MAX_JSON_PATCH_COPY_BYTES, MAX_JSON_PATCH_OPERATIONS, Patched, json_patch, merge_patch};
pub use write::to_yaml;
