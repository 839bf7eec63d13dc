//! Managers and the fields that they own.

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use crate::{
    FieldSet,
    go_text::{Escapes, quote, write_json_text},
};

/// Operation by which a manager owns fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    /// Returns its word in `metadata.managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Identity of a manager: its name, operation, subresource and, for updates, its API version.
///
/// One name has several identities: what it applied and what it updated are kept apart. The order is that of
/// Kubernetes' own text of the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerId {
    name: String,
    operation: Operation,
    api_version: String,
    subresource: String,
    text: String,
}

impl ManagerId {
    /// Makes an identity. `api_version` is ignored for [`Operation::Apply`].
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        let mut text = String::from("{");
        let parts = [
            ("manager", name),
            ("operation", operation.as_str()),
            ("apiVersion", api_version),
            ("subresource", subresource),
        ];
        for (part, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
            if text.len() > 1 {
                text.push(',');
            }
            write_json_text(&mut text, part, Escapes::Plain);
            text.push(':');
            write_json_text(&mut text, value, Escapes::Html);
        }
        text.push('}');
        let [name, api_version, subresource] = [name, api_version, subresource].map(str::to_owned);
        Self { name, operation, api_version, subresource, text }
    }

    /// Makes the identity of the update in progress, which no entry of an object has.
    pub(crate) fn in_progress() -> Self {
        let [name, api_version, subresource] = [(); 3].map(|()| String::new());
        Self {
            name,
            operation: Operation::Update,
            api_version,
            subresource,
            text: "current-operation".to_owned(),
        }
    }

    /// Returns the name, such as `kubectl`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the API version; empty for [`Operation::Apply`].
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the subresource; empty for the object itself.
    pub fn subresource(&self) -> &str {
        &self.subresource
    }
}

impl Ord for ManagerId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for ManagerId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ManagerId {
    /// Writes the identity as conflict messages do, such as `"kubectl" with subresource "status" using v1`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(formatter, " with subresource {}", quote(&self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(formatter, " using {}", self.api_version),
        }
    }
}

/// Fields that a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields, in terms of the API version.
    pub set: FieldSet,
    /// API version that the fields belong to.
    pub api_version: String,
    /// True when the manager applied them.
    pub applied: bool,
}

/// Managers of one object.
pub type Managers = BTreeMap<ManagerId, VersionedSet>;

/// Field that an applied document changes and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager.
    pub manager: ManagerId,
    /// The field.
    pub path: crate::Path,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_as_in_conflict_messages() {
        let text = |operation, subresource| ManagerId::new("a", operation, "v1", subresource).to_string();
        assert_eq!(text(Operation::Apply, ""), r#""a""#);
        assert_eq!(text(Operation::Update, ""), r#""a" using v1"#);
        assert_eq!(text(Operation::Update, "status"), r#""a" with subresource "status" using v1"#);
    }

    #[test]
    fn identities_are_ordered_by_their_text() {
        let update = |name| ManagerId::new(name, Operation::Update, "v1", "");
        assert!(
            update("a!") < update("a") && update("a") < update("ab"),
            "the quote follows the exclamation mark"
        );
        assert!(ManagerId::new("a", Operation::Apply, "v1", "x") < update("a"));
        assert_eq!(
            ManagerId::new("a", Operation::Apply, "v1", ""),
            ManagerId::new("a", Operation::Apply, "v2", ""),
        );
    }
}
