//! Names of the plugins.

use std::{fmt, str::FromStr};

/// A plugin, by its name in the flags of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// Mutating webhooks.
    MutatingAdmissionWebhook,
    /// Policies in CEL.
    ValidatingAdmissionPolicy,
    /// Validating webhooks.
    ValidatingAdmissionWebhook,
    /// Object counts in ResourceQuotas.
    ResourceQuota,
}

impl Plugin {
    /// All plugins, in their order.
    pub const ALL: [Self; 4] = [
        Self::MutatingAdmissionWebhook,
        Self::ValidatingAdmissionPolicy,
        Self::ValidatingAdmissionWebhook,
        Self::ResourceQuota,
    ];

    /// Returns the name of the plugin.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MutatingAdmissionWebhook => "MutatingAdmissionWebhook",
            Self::ValidatingAdmissionPolicy => "ValidatingAdmissionPolicy",
            Self::ValidatingAdmissionWebhook => "ValidatingAdmissionWebhook",
            Self::ResourceQuota => "ResourceQuota",
        }
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Plugin {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|plugin| plugin.as_str() == name);
        found.ok_or_else(|| format!("{name} is none of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}
