//! Field paths, field errors and the validation of names, as `k8s.io/apimachinery/pkg/util/validation` has them.

mod field;

pub use field::{FieldError, FieldErrorKind, FieldPath};
