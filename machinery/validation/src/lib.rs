//! Field paths, field errors and the validation of names and metadata, as
//! `k8s.io/apimachinery/pkg/api/validation` has them.
//!
//! The functions on single strings return what is wrong in words, all of it; those on objects return
//! [`FieldError`]s with their paths.

mod field;
mod metadata;
mod names;

pub use field::{FieldError, FieldErrorKind, FieldPath};
pub use metadata::{validate_metadata, validate_metadata_update};
pub use names::{
    derived_name, dns1123_label, dns1123_subdomain, generate_name, label_key, label_value, qualified_name,
};
