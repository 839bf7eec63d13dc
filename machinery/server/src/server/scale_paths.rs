//! Check of the paths of scales, when a server is built.

use super::BuildError;
use crate::{Registry, Strategy};

/// Checks that the paths of scales lead to fields of the kind, in each of its versions.
///
/// The number of replicas would otherwise be read as missing, and written where no reader looks for it.
pub(super) fn check<S: Strategy>(registry: &Registry<S>) -> Result<(), BuildError> {
    for version in registry.versions().all() {
        let name = version.name();
        // The documents report a kind without a structure.
        let (Some(paths), Ok(structure)) = (registry.strategy().scale(&name.version), version.structure())
        else {
            continue;
        };
        let fields = [
            (Some(paths.spec_replicas), "integer", &["spec"][..]),
            (Some(paths.status_replicas), "integer", &["status"]),
            (paths.selector, "string", &["spec", "status"]),
        ];
        for (path, expected, parts) in fields {
            let Some(path) = path else { continue };
            let below = path.split_once('.').is_some_and(|(part, _)| parts.contains(&part));
            if !below || structure.field_type(path) != Some(expected) {
                return Err(BuildError::ScalePath {
                    resource: name.to_string(),
                    version: name.version.clone(),
                    path,
                    expected,
                    parts: parts.join(" or "),
                });
            }
        }
    }
    Ok(())
}
