//! Failures of applying and of tracking ownership, and their `metav1.Status`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use crate::{Conflict, FieldsError, Invalid, managers::ManagerId};

/// Reason for which a document was not applied or its ownership not tracked.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The document changes fields that other managers own: 409.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The applied document has another API version than the request: 400.
    #[error(
        "Incorrect version specified in apply patch. Specified patch version: {found}, expected: {expected}"
    )]
    WrongVersion {
        /// API version of the document.
        found: String,
        /// API version of the request.
        expected: String,
    },
    /// The applied document sets managed fields: 400.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// A document does not fit the schema: 500, as kube-apiserver answers.
    #[error("failed to create typed {role} object ({object}): {errors}")]
    Invalid {
        /// Role of the document: `patch`, `live` or `new`.
        role: &'static str,
        /// Namespace, name and kind of the object.
        object: String,
        /// The mismatches.
        errors: Invalid,
    },
    /// The merged document cannot be compared with the live one: 500.
    #[error("failed to compare objects: {0}")]
    Incomparable(Invalid),
    /// A document cannot be converted to the version of a manager: 500.
    #[error("failed to convert the object to version {version}: {why}")]
    Unconvertible {
        /// The version.
        version: String,
        /// The reason.
        why: String,
    },
    /// The live object's managed fields are malformed: 500.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(ManagedFieldsError),
    /// A document is nested too deeply: 400.
    #[error("the object is nested deeper than {limit} levels")]
    TooDeep {
        /// Maximum number of levels.
        limit: usize,
    },
}

/// Reason for which an entry of `metadata.managedFields` is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// The operation is unknown.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// There is no API version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// There is no type of fields.
    #[error("missing fieldsType in managed fields entry {index}")]
    MissingFieldsType {
        /// Index of the entry, from 0.
        index: usize,
    },
    /// The type of fields is unknown.
    #[error("invalid fieldsType {found:?} in managed fields entry {index}")]
    FieldsType {
        /// Index of the entry, from 0.
        index: usize,
        /// The type.
        found: String,
    },
    /// The fields are not FieldsV1.
    #[error("error decoding set of managed fields entry {index}: {error}")]
    Fields {
        /// Index of the entry, from 0.
        index: usize,
        /// Description of the problem.
        error: FieldsError,
    },
}

impl ApplyError {
    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflicts(_) => 409,
            Self::WrongVersion { .. } | Self::ManagedFieldsGiven | Self::TooDeep { .. } => 400,
            Self::Invalid { .. }
            | Self::Incomparable(_)
            | Self::ManagedFields(_)
            | Self::Unconvertible { .. } => 500,
        }
    }

    /// Returns the `reason` of the status. kube-apiserver gives none for its internal failures.
    pub fn reason(&self) -> Option<&'static str> {
        match self.code() {
            409 => Some("Conflict"),
            400 => Some("BadRequest"),
            _ => None,
        }
    }

    /// Returns the causes: one for each conflict.
    pub fn causes(&self) -> Vec<StatusCause> {
        let Self::Conflicts(conflicts) = self else {
            return Vec::new();
        };
        let causes = conflicts.iter().map(|conflict| StatusCause {
            field: Some(conflict.path.to_string()),
            message: Some(format!("conflict with {}", conflict.manager)),
            reason: Some("FieldManagerConflict".to_owned()),
        });
        causes.collect()
    }

    /// Returns the failure as kube-apiserver writes it.
    pub fn status(&self) -> Status {
        let causes = self.causes();
        let details = StatusDetails { causes: Some(causes), ..StatusDetails::default() };
        Status {
            status: Some("Failure".to_owned()),
            message: Some(self.to_string()),
            reason: self.reason().map(str::to_owned),
            code: Some(self.code().into()),
            details: details.causes.as_ref().is_some_and(|causes| !causes.is_empty()).then_some(details),
            ..Status::default()
        }
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [Conflict { manager, path }] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut by_manager: BTreeMap<&ManagerId, Vec<String>> = BTreeMap::new();
    for Conflict { manager, path } in conflicts {
        by_manager.entry(manager).or_default().push(format!("- {path}"));
    }
    let managers = by_manager
        .into_iter()
        .map(|(manager, paths)| format!("conflicts with {manager}:\n{}", paths.join("\n")));
    let managers: Vec<String> = managers.collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), managers.join("\n"))
}
