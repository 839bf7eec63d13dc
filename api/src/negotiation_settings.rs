//! The file with the API server's negotiation settings: defaults of requesters and limits of responders.

use serde::Deserialize;

use crate::{APISERVER_DOMAIN, DeadlineAction, VERSION};

/// Maximum of every number of seconds in the settings: a year.
pub const MAX_SETTINGS_SECONDS: i64 = 366 * 24 * 3600;

/// The document. A setting that it leaves out is that of the flags.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NegotiationSettingsFile {
    /// The version, [`Self::api_version`].
    pub api_version: String,
    /// The kind, [`Self::KIND`].
    pub kind: String,
    /// Seconds until the deadline of a requester that gives none.
    pub default_deadline_seconds: Option<i64>,
    /// Action at that deadline: `Evict` or `GiveUp`.
    pub default_at_deadline: Option<DeadlineAction>,
    /// Limit on the maximum total delay of each responder, in seconds.
    pub max_delay_seconds: Option<i64>,
    /// Limit on the timeout of each responder, in seconds.
    pub max_timeout_seconds: Option<i64>,
}

impl NegotiationSettingsFile {
    /// The kind of every file.
    pub const KIND: &str = "NegotiationSettings";

    /// Returns the `apiVersion` of every file.
    #[must_use]
    pub fn api_version() -> String {
        format!("{APISERVER_DOMAIN}/{VERSION}")
    }
}
