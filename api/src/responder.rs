//! Registration of a responder, in the pod annotation `evacuation.dev/responders` and in an
//! EvacuationResponder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HttpEndpoint, MIGRATE_RESPONDER, REPLACEMENT_RESPONDER, ServiceEndpoint};

/// Priority of a responder that names none. Higher is asked first.
pub const DEFAULT_PRIORITY: i32 = 10_000;
/// Timeout of a responder that names none, in seconds: the time that it may stay silent.
pub const DEFAULT_TIMEOUT_SECONDS: i64 = 60;
/// Maximum total delay of a responder that names none, in seconds: 24 hours.
pub const DEFAULT_MAX_DELAY_SECONDS: i64 = 24 * 3600;

/// Registration of one responder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResponderEntry {
    /// `self` for the pod itself, or a domain-prefixed name such as `db.acme.io/failover`.
    pub name: String,
    /// Priority: higher is asked first; 10000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Time that the responder may stay silent, in seconds; 60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// Maximum total delay, in seconds; 86400 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay_seconds: Option<i64>,
    /// True when the pod serves until it is terminated: neither the question nor an answer takes anything
    /// away. Its question then does not wait for room in the pod's budgets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves_until_termination: bool,
    /// Endpoint of the target pod to which the controller posts the question.
    /// Without `http` and `service` the responder watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpEndpoint>,
    /// Service to which the controller posts the question. Not together with `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceEndpoint>,
}

impl ResponderEntry {
    /// Returns an entry of that name that leaves everything else to the defaults.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            priority: None,
            timeout_seconds: None,
            max_delay_seconds: None,
            serves_until_termination: false,
            http: None,
            service: None,
        }
    }

    /// Returns true when the pod serves until it is terminated, whatever this responder is asked and answers:
    /// as registered, and for the built-in responders that have a replacement ready first.
    pub fn serves_until_termination(&self) -> bool {
        let replaces = [REPLACEMENT_RESPONDER, MIGRATE_RESPONDER].contains(&self.name.as_str());
        self.serves_until_termination || replaces
    }

    /// Returns true when the controller posts the question. Otherwise the responder watches for it.
    pub fn is_pushed(&self) -> bool {
        self.http.is_some() || self.service.is_some()
    }

    /// Returns the priority, or its default.
    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or(DEFAULT_PRIORITY)
    }

    /// Returns the timeout in seconds, or its default.
    pub fn timeout_seconds(&self) -> i64 {
        self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS)
    }

    /// Returns the maximum total delay in seconds, or its default.
    pub fn max_delay_seconds(&self) -> i64 {
        self.max_delay_seconds.unwrap_or(DEFAULT_MAX_DELAY_SECONDS)
    }
}
