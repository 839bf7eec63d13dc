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

/// Kind of a field error. The names are the cause types of `metav1.StatusCause`.
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
    /// Returns the words for people, such as `Required value`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

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
    /// Kind of the error.
    pub kind: FieldErrorKind,
    /// Path of the field.
    pub field: FieldPath,
    /// Explanation, with the value where that helps.
    pub message: String,
}

impl FieldError {
    /// An error of that kind; `message` says how, with the value where that helps.
    pub fn new(kind: FieldErrorKind, field: &FieldPath, message: impl Into<String>) -> Self {
        Self { kind, field: field.clone(), message: message.into() }
    }

    /// The field must be given.
    pub fn required(field: &FieldPath, message: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, message)
    }

    /// The field may not be given, or not by this caller.
    pub fn forbidden(field: &FieldPath, message: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, message)
    }

    /// The field has a value that is not allowed; `message` says which would be.
    pub fn invalid(field: &FieldPath, value: &str, message: impl fmt::Display) -> Self {
        Self::new(FieldErrorKind::Invalid, field, format!("{}: {message}", quoted(value)))
    }

    /// The field has a value that is not one of these.
    pub fn not_supported(field: &FieldPath, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("{}: supported values: {}", quoted(value), supported.join(", "));
        Self::new(FieldErrorKind::NotSupported, field, message)
    }

    /// The field's value occurs twice.
    pub fn duplicate(field: &FieldPath, value: &str) -> Self {
        Self::new(FieldErrorKind::Duplicate, field, format!("{value:?}"))
    }

    /// The field names something that does not exist.
    pub fn not_found(field: &FieldPath, value: &str) -> Self {
        Self::new(FieldErrorKind::NotFound, field, format!("{value:?}"))
    }

    /// The field is longer than `most` bytes.
    pub fn too_long(field: &FieldPath, most: usize) -> Self {
        Self::new(FieldErrorKind::TooLong, field, format!("may not be more than {most} bytes"))
    }

    /// The field has more than `most` elements.
    pub fn too_many(field: &FieldPath, actual: usize, most: usize) -> Self {
        Self::new(FieldErrorKind::TooMany, field, format!("{actual}: must have at most {most} items"))
    }

    /// Returns the error without the field: the `message` of a `metav1.StatusCause`.
    pub fn body(&self) -> String {
        if self.message.is_empty() {
            self.kind.words().to_owned()
        } else {
            format!("{}: {}", self.kind.words(), self.message)
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Returns a text in quotes as Go's `%q` writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\x0b' => quoted.push_str("\\v"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_ascii_control() => {
                let code = format!("\\x{:02x}", u32::from(control));
                quoted.push_str(&code);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_kubernetes_writes_them() {
        let name = FieldPath::new("spec").child("requesters").index(1).child("name");
        let cases = [
            (FieldError::required(&name, ""), "spec.requesters[1].name: Required value"),
            (
                FieldError::invalid(&name, "A", "must be lower case"),
                "spec.requesters[1].name: Invalid value: \"A\": must be lower case",
            ),
            (
                FieldError::not_supported(&name, "x", &["a", "b"]),
                "spec.requesters[1].name: Unsupported value: \"x\": supported values: \"a\", \"b\"",
            ),
            (FieldError::duplicate(&name, "a"), "spec.requesters[1].name: Duplicate value: \"a\""),
            (
                FieldError::too_many(&name, 3, 2),
                "spec.requesters[1].name: Too many: 3: must have at most 2 items",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
