//! The features that one process runs.

use clap::ValueEnum;

/// A set of features with a service account of its own. A process runs one set.
///
/// The built-in responders patch pods, and nothing else of the project does. In a process of their own, the
/// right to patch pods is not in the hands of the process that listens to all apps and follows all drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FeatureSet {
    /// Everything but the built-in responders.
    Controller,
    /// The built-in responders alone.
    BuiltInResponders,
}

impl FeatureSet {
    /// Name of the program in leases, Events and host-less identities.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Controller => "evacuation-controller",
            Self::BuiltInResponders => "evacuation-built-in-responders",
        }
    }

    /// Name of the program in audit logs and in the `metadata.managedFields` of what it writes.
    pub(super) const fn agent(self) -> &'static str {
        match self {
            Self::Controller => concat!("evacuation-controller/", env!("CARGO_PKG_VERSION")),
            Self::BuiltInResponders => {
                concat!("evacuation-built-in-responders/", env!("CARGO_PKG_VERSION"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_share_neither_lease_nor_agent() {
        let (one, other) = (FeatureSet::Controller, FeatureSet::BuiltInResponders);
        assert_ne!(one.program(), other.program());
        for set in [one, other] {
            assert!(set.agent().starts_with(&format!("{}/", set.program())));
        }
    }
}
