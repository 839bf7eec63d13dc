//! Patches of Kubernetes objects and strict decoding: pure functions on bytes and [`serde_json::Value`].
//!
//! # Patches
//!
//! [`json_patch()`] (RFC 6902, `application/json-patch+json`) and [`merge_patch`] (RFC 7386,
//! `application/merge-patch+json`) take any document. [`StrategicPatch`]
//! (`application/strategic-merge-patch+json`) takes one of a kind whose schema has the merge keys of lists.
//! Server-side apply (`application/apply-patch+yaml`) is in `machinery-apply`.
//!
//! # Decoding
//!
//! [`decode`] reads a type from JSON, [`decode_yaml`] from YAML, [`decode_parsed`] from a parsed document.
//! Each reports unknown and duplicate fields by path, as `fieldValidation` asks for it, and names the path of
//! a field of a wrong type. [`inspect`] goes on after such a field, and finds all problems at once.
//! [`parse_manifest`] reads YAML with merge keys. [`to_yaml`] writes YAML.

mod decode;
mod error;
mod finding;
mod inspect;
mod parse;
mod patch;
mod strategic;
mod value;
mod write;

pub use decode::{Decoded, Strictness, decode, decode_parsed, decode_yaml};
pub use error::{DecodeError, EncodeError, PatchError};
pub use inspect::{Inspected, inspect};
pub use parse::{Parsed, parse_json, parse_manifest, parse_yaml};
pub use patch::{MAX_JSON_PATCH_COPY_BYTES, MAX_JSON_PATCH_OPERATIONS, Patched, json_patch, merge_patch};
pub use strategic::{MAX_STRATEGIC_COMPARISONS, MAX_STRATEGIC_PATCH_ITEMS, StrategicPatch};
pub use write::to_yaml;
