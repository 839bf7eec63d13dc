//! The EvacuationResponder: registers a responder for the pods that a selector picks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    DEFAULT_MAX_DELAY_SECONDS, DEFAULT_PRIORITY, DEFAULT_TIMEOUT_SECONDS, HttpEndpoint, ResponderEntry,
    ServiceEndpoint, api_version, kind::kind,
};

/// Registers a responder for the pods of its namespace that a selector picks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationResponder {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `EvacuationResponder`.
    #[serde(default = "EvacuationResponder::default_kind")]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The responder, and the pods for which it is asked.
    pub spec: EvacuationResponderSpec,
}

kind!(EvacuationResponder, "EvacuationResponder", "evacuationresponders", NamespaceResourceScope);

/// The responder, and the pods for which it is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationResponderSpec {
    /// Selector of the pods in the namespace. An empty selector picks every pod.
    ///
    /// The registration counts for new Evacuations. An Evacuation keeps the responders that it was created
    /// with.
    pub selector: LabelSelector,
    /// `self` for the pod itself, or a domain-prefixed name such as `db.acme.io/failover`.
    /// An entry of that name in the pod's annotation comes first. Of two EvacuationResponders of that name
    /// the older one counts.
    pub name: String,
    /// Priority: higher is asked first; 10000 by default. Equal priorities are asked in the order of their
    /// names.
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

impl EvacuationResponder {
    /// Returns an EvacuationResponder of that name, not yet created.
    pub fn new(name: &str, spec: EvacuationResponderSpec) -> Self {
        Self {
            api_version: api_version(),
            kind: Self::default_kind(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec,
        }
    }
}

impl EvacuationResponderSpec {
    /// Returns the registration, without the pods.
    pub fn entry(&self) -> ResponderEntry {
        ResponderEntry {
            name: self.name.clone(),
            priority: self.priority,
            timeout_seconds: self.timeout_seconds,
            max_delay_seconds: self.max_delay_seconds,
            serves_until_termination: self.serves_until_termination,
            http: self.http.clone(),
            service: self.service.clone(),
        }
    }
}

/// Fills in the defaults of priority, timeout and maximum total delay.
pub fn default_evacuation_responder(responder: &mut EvacuationResponder) {
    let spec = &mut responder.spec;
    spec.priority.get_or_insert(DEFAULT_PRIORITY);
    spec.timeout_seconds.get_or_insert(DEFAULT_TIMEOUT_SECONDS);
    spec.max_delay_seconds.get_or_insert(DEFAULT_MAX_DELAY_SECONDS);
}
