//! Names of a kind in URLs and messages.

use std::fmt;

use crate::{ApiError, Object, Reason, status::Target};

/// Names of a kind in URLs and messages. Displays as `evacuations.evacuation.dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceName {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
}

impl ResourceName {
    pub(crate) fn of<O: Object>() -> Self {
        Self {
            group: O::group(&()).into_owned(),
            version: O::version(&()).into_owned(),
            kind: O::kind(&()).into_owned(),
            plural: O::plural(&()).into_owned(),
        }
    }

    /// Returns the value of `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(crate) fn target(&self, name: &str) -> Target {
        Target {
            group: self.group.clone(),
            kind: self.kind.clone(),
            resource: self.plural.clone(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::status(Reason::NotFound, format!("{self} {name:?} not found"))
    }

    pub(crate) fn already_exists(&self, name: &str) -> ApiError {
        ApiError::status(Reason::AlreadyExists, format!("{self} {name:?} already exists"))
    }

    pub(crate) fn conflict(&self, name: &str, why: &str) -> ApiError {
        let message = format!("Operation cannot be fulfilled on {self} {name:?}: {why}");
        ApiError::status(Reason::Conflict, message)
    }

    /// Returns the conflict of a deletion that was meant for another object or version. As upstream, it names
    /// the kind in place of the resource.
    pub(crate) fn failed_precondition(&self, name: &str, why: &str) -> ApiError {
        let kind = crate::status::qualified(&self.kind, &self.group);
        let message = format!("Operation cannot be fulfilled on {kind} {name:?}: {why}");
        ApiError::status(Reason::Conflict, message)
    }

    /// Returns the conflict of a write that was made from an older version.
    pub(crate) fn modified(&self, name: &str) -> ApiError {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        self.conflict(name, why)
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::status::qualified(&self.plural, &self.group))
    }
}
