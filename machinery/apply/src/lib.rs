//! Server-side apply, without I/O and without a clock: field ownership, conflicts, and the merge of applied
//! documents.
//!
//! The behaviour is that of `sigs.k8s.io/structured-merge-diff` and of
//! `k8s.io/apimachinery/pkg/util/managedfields`, on whole objects as [`serde_json::Value`]s.
//!
//! # Layers
//!
//! - [`apply()`] and [`track`]: whole objects with `metadata.managedFields`. A server needs no more.
//! - [`scale_entries`] and [`object_entries`]: the managed fields of the subresource `scale`, and back.
//! - [`Updater`]: typed documents and their [`Managers`].
//! - [`typed`]: documents seen through a [`Schema`](machinery_schema::Schema).
//! - [`FieldSet`], [`Path`], [`PathElement`]: sets of fields, and their JSON form.
//!
//! # Assumptions
//!
//! - Every document is in the API version of the request. For the managers of other versions of the kind it
//!   is converted ([`Versions`]).
//! - Admission comes after, and is not tracked, as upstream.
//!
//! # Differences from upstream
//!
//! - `metadata.managedFields` is not part of the merged object; the caller writes the entries into it.
//! - Conflicts are in the order of their managers. Upstream's are in random order.
//! - Documents nested deeper than 128 levels, and field sets of more than 500,000 elements, are errors.

mod error;
mod fields_v1;
mod go_text;
mod invalid;
mod managed_fields;
mod managers;
mod path;
mod set;
pub mod typed;
mod update;
mod value;
mod versions;

pub use error::{ApplyError, ManagedFieldsError};
pub use fields_v1::{FieldsError, MAX_FIELDS, MAX_FIELDS_DEPTH};
pub use invalid::{Invalid, Mismatch};
pub use managed_fields::{
    Applied, MAX_MANAGER_BYTES, ManagerNameError, ReplicasPaths, Writer, apply, manager_from_user_agent,
    object_entries, scale_entries, track, validate_managed_fields, validate_manager,
};
pub use managers::{Conflict, ManagerId, Managers, Operation, VersionedSet};
pub use path::{Path, PathElement};
pub use set::FieldSet;
pub use update::Updater;
pub use versions::{OneVersion, Versions};
