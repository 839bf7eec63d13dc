//! Errors of single fields, as `k8s.io/apimachinery/pkg/util/validation/field` has them.

use std::fmt;

/// The path of a field, such as `spec.requesters[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldPath(String);

impl FieldPath {
    /// The path of a top-level field.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The path of a field of this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self::new(name) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The path of an element of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of a value of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field. The names are the cause types of `metav1.StatusCause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Must be given.
    Required,
    /// Occurs twice.
    Duplicate,
    /// Has a value that is not allowed.
    Invalid,
    /// Has a value that is not one of the allowed ones.
    NotSupported,
    /// May not be given, or not by this caller.
    Forbidden,
    /// Names something that does not exist.
    NotFound,
    /// Is too long.
    TooLong,
    /// Has too many elements.
    TooMany,
    /// Has the wrong JSON type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The cause's `reason` on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What is wrong with it.
    pub kind: FieldErrorKind,
    /// Which field.
    pub field: FieldPath,
    /// How, in words, with the value where that helps.
    pub message: String,
}
