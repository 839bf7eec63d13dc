//! The file of the configuration.

use std::path::{Path, PathBuf};

use evacuation_api::{GatewayConfiguration, validate_gateway_configuration};
use machinery_merge::{DecodeError, Strictness, decode_yaml};
use machinery_validation::FieldError;

use super::table::Table;

/// Reason that a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not YAML, or has fields that are unknown, given twice or of a wrong type.
    #[error("{} is not a configuration of the gateway", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// The problem, with the field's path.
        #[source]
        source: DecodeError,
    },
    /// Fields have values that make no sense.
    #[error("{} is invalid: {}", path.display(), texts(problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Every problem.
        problems: Vec<FieldError>,
    },
}

fn texts(problems: &[FieldError]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Checks a file as the gateway would at its start.
///
/// # Errors
///
/// The file cannot be read, or is not a valid configuration.
pub fn check(path: &Path) -> Result<(), ConfigurationError> {
    let text = std::fs::read(path).map_err(|source| read_error(path, source))?;
    table(path, &text).map(drop)
}

pub(super) fn read_error(path: &Path, source: std::io::Error) -> ConfigurationError {
    ConfigurationError::Read { path: path.to_owned(), source }
}

/// Returns the table that the text of a file describes.
pub(super) fn table(path: &Path, text: &[u8]) -> Result<Table, ConfigurationError> {
    read(path, text).map(|configuration| Table::new(configuration.callers))
}

/// Returns the valid document that the text of a file is.
pub(crate) fn read(path: &Path, text: &[u8]) -> Result<GatewayConfiguration, ConfigurationError> {
    let decoded = decode_yaml::<GatewayConfiguration>(text, Strictness::Strict)
        .map_err(|source| ConfigurationError::Decode { path: path.to_owned(), source })?;
    let problems = validate_gateway_configuration(&decoded.value);
    if problems.is_empty() {
        return Ok(decoded.value);
    }
    Err(ConfigurationError::Invalid { path: path.to_owned(), problems })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call_of, pod_of};
    use evacuation_api::Operation;
    use std::error::Error;

    fn read(callers: &str) -> Result<Table, String> {
        let text =
            format!("apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\n{callers}");
        table(Path::new("gateway.yaml"), text.as_bytes()).map_err(|error| {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            format!("{error}{cause}")
        })
    }

    #[test]
    fn the_rows_of_the_file_come_before_the_built_in_ones_and_the_first_match_counts() {
        let table = read(
            "callers:\n- name: repair\n  matches:\n  - users: [bot-*]\n    operations: [Evict]\n  onRefusal: Override\n- name: later\n  matches:\n  - users: [bot-*]\n",
        )
        .unwrap();
        let pod = pod_of(None, None);
        assert_eq!(table.row(&call_of("bot-7", Operation::Evict), &pod).name, "repair");
        assert_eq!(table.row(&call_of("bot-7", Operation::Delete), &pod).name, "later");
        assert_eq!(table.row(&call_of("alice", Operation::Delete), &pod).name, "deletion");
    }

    #[test]
    fn an_empty_file_of_the_right_kind_leaves_the_built_in_rows() {
        assert_eq!(read("").unwrap(), Table::new(Vec::new()));
    }

    #[test]
    fn every_mistake_is_named_with_its_field() {
        let table = [
            ("callers:\n- nmae: x\n", "name"),
            ("callers:\n- name: x\n  onRefusal: Never\n", "callers[0].onRefusal"),
            ("callers:\n- name: x\n  patienceSecond: 5\n", "callers[0].patienceSecond"),
            ("callers:\n- name: x\n  patienceSeconds: 0\n", "callers[0].patienceSeconds"),
            ("callers:\n- name: x\n  retryAfterSeconds: 600\n", "callers[0].retryAfterSeconds"),
            ("callers:\n- name: x\n  atDeadline: Delete\n", "callers[0].atDeadline"),
            ("callers:\n- name: X Y\n", "callers[0].name"),
            ("callers:\n- name: x\n- name: x\n", "callers[1].name"),
            (
                "callers:\n- name: x\n  matches:\n  - gracePeriodSeconds: {min: 5, max: 2}\n",
                "callers[0].matches[0].gracePeriodSeconds",
            ),
            ("callers:\n- name: x\n  matches:\n  - {}\n", "callers[0].matches[0]"),
            ("callers:\n- name: x\n  act: Pass\n", "callers[0].matches"),
        ];
        for (text, field) in table {
            let error = read(text).unwrap_err();
            assert!(error.contains(field), "{text}: {error}");
        }
        let wrong = super::table(Path::new("a.yaml"), b"apiVersion: v1\nkind: ConfigMap\n").unwrap_err();
        assert!(wrong.to_string().contains("apiVersion"), "{wrong}");
    }
}
