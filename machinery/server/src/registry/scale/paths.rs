//! Paths of the parts of a scale in an object.

use machinery_apply::{Path, PathElement, ReplicasPaths};

use crate::{Strategy, version::Versions};

/// Paths of the parts of a scale in one version of a kind: the names of fields with dots between them.
///
/// A server is not built when its schema has no such field, or one of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// Desired number of replicas: an integer below `spec`.
    pub spec_replicas: &'static str,
    /// Observed number of replicas: an integer below `status`.
    pub status_replicas: &'static str,
    /// Label selector of the replicas, as text below `spec` or `status`; `None` for a kind without one.
    pub selector: Option<&'static str>,
}

impl ScalePaths {
    /// `spec.replicas`, `status.replicas` and `status.selector`.
    pub const STANDARD: Self = Self {
        spec_replicas: "spec.replicas",
        status_replicas: "status.replicas",
        selector: Some("status.selector"),
    };
}

/// Returns the paths of the number of replicas in all versions of a kind.
pub(in crate::registry) fn replicas_paths<S: Strategy>(
    strategy: &S,
    versions: &Versions<S::Object>,
) -> ReplicasPaths {
    let path = |paths: ScalePaths| Path(paths.spec_replicas.split('.').map(PathElement::field).collect());
    let versions = versions.all().iter().map(|version| version.name());
    versions.map(|name| (name.api_version(), strategy.scale(&name.version).map(path))).collect()
}
