//! The evacuation controller: negotiates with responders and evicts within budgets.
//!
//! # Flow
//!
//! The `cluster` view watches the API and tells each feature what changed. A feature queues keys, and
//! workers reconcile them while this process leads: `negotiation` asks responders and evicts, `builtin`
//! plays two responders, `drain` drains nodes, `rule` opens drains of marked nodes, `refresh` asks for pods
//! in a crash loop, `pod_group` asks all pods that move together, `eviction_request` acts on Kubernetes'
//! own EvictionRequests, `bridges` connects objects of other projects, and `annotation_check` warns of
//! mistakes. `process` wires them.
//!
//! # Guarantees
//!
//! The modules depend on each other in one direction: process, then features, then cluster. No feature knows
//! another, except that `bridges` uses the parts of a responder that `builtin` has. Nothing is written,
//! posted or asked unless this process leads.

mod annotation_check;
mod bridges;
mod builtin;
mod cluster;
mod drain;
mod eviction_request;
#[doc(hidden)]
pub mod fuzzing;
mod negotiation;
mod pod_group;
mod process;
mod refresh;
mod rule;
mod unasked;

pub use bridges::{Bridge, BridgeOptions};
pub use eviction_request::EvictionRequestOptions;
pub use process::{FeatureSet, Options, RunError, run, shutdown_signal};
pub use refresh::RefreshOptions;
