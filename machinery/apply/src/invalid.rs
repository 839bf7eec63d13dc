//! Errors of documents that do not fit their schema.

use std::fmt;

use crate::PathElement;

/// Maximum number of errors that are kept.
const MAX_ERRORS: usize = 100;

/// One place of a document that does not fit the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Path of the value as text, such as `.spec.replicas`; empty for the whole document.
    pub path: String,
    /// Description of the problem.
    pub message: String,
}

/// Places of a document that do not fit the schema; at most 100.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invalid(pub Vec<Mismatch>);

impl Invalid {
    pub(crate) fn add(&mut self, message: impl Into<String>) {
        if self.0.len() < MAX_ERRORS {
            self.0.push(Mismatch { path: String::new(), message: message.into() });
        }
    }

    /// Adds the errors of a value that lies below this one.
    pub(crate) fn add_below(&mut self, element: &PathElement, below: Self) {
        let room = MAX_ERRORS.saturating_sub(self.0.len());
        self.0.extend(
            below
                .0
                .into_iter()
                .take(room)
                .map(|Mismatch { path, message }| Mismatch { path: format!("{element}{path}"), message }),
        );
    }

    pub(crate) fn extend(&mut self, other: Self) {
        let room = MAX_ERRORS.saturating_sub(self.0.len());
        self.0.extend(other.0.into_iter().take(room));
    }

    pub(crate) fn result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => formatter.write_str(&self.message),
            path => write!(formatter, "{path}: {}", self.message),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(formatter);
        }
        formatter.write_str("errors:")?;
        self.0.iter().try_for_each(|mismatch| write!(formatter, "\n  {mismatch}"))
    }
}

impl std::error::Error for Invalid {}
