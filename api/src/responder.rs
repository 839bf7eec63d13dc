//! Registration: what both the pod annotation `evacuation.dev/responders` and an EvacuationResponder say of a responder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ServiceEndpoint;

/// The priority of a responder that names none. Higher is asked first.
pub const DEFAULT_PRIORITY: i32 = 10_000;
/// How long a responder may stay silent when it names no timeout, in seconds.
pub const DEFAULT_TIMEOUT_SECONDS: i64 = 60;
/// How long a responder may delay in total when it names no bound, in seconds: 24 hours.
pub const DEFAULT_MAX_DELAY_SECONDS: i64 = 24 * 3600;
/// The path of an endpoint that names none.
pub const DEFAULT_HTTP_PATH: &str = "/evacuation";

/// Registers one responder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResponderEntry {
    /// `self` for the pod itself, or a domain-prefixed name such as `db.acme.io/failover`.
    pub name: String,
    /// Higher is asked first; 10000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long the responder may stay silent, in seconds; 60 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// How long the responder may delay in total, in seconds; 86400 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay_seconds: Option<i64>,
    /// Where at the target pod the controller posts the question. Without `http` and `service` the responder watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpEndpoint>,
    /// The Service that the controller posts the question to. Not together with `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceEndpoint>,
}

impl ResponderEntry {
    /// An entry of that name that leaves everything else to the defaults.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            priority: None,
            timeout_seconds: None,
            max_delay_seconds: None,
            http: None,
            service: None,
        }
    }

    /// Whether the controller posts the question, instead of the responder watching for it.
    pub fn is_pushed(&self) -> bool {
        self.http.is_some() || self.service.is_some()
    }

    /// The priority, or its default.
    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or(DEFAULT_PRIORITY)
    }

    /// How long the responder may stay silent, in seconds, or its default.
    pub fn timeout_seconds(&self) -> i64 {
        self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS)
    }

    /// How long the responder may delay in total, in seconds, or its default.
    pub fn max_delay_seconds(&self) -> i64 {
        self.max_delay_seconds.unwrap_or(DEFAULT_MAX_DELAY_SECONDS)
    }
}

/// An HTTP endpoint of the target pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpEndpoint {
    /// The port on the pod's IP.
    pub port: u16,
    /// The path, which starts with a slash; `/evacuation` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether a pod on the host's network may be asked, although its IP is the node's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_host_network: bool,
}

impl HttpEndpoint {
    /// The path, or its default.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(DEFAULT_HTTP_PATH)
    }
}
