//! Plays the controller of Kubernetes' own EvictionRequests.
//!
//! # Flow
//!
//! The feature watches EvictionRequests and Evictions. Its keys are pods. For each one it passes everything
//! that is known to [`plan_eviction`](evacuation_protocol::plan_eviction), and carries out the acts.
//!
//! # Guarantees
//!
//! Nothing but a warning is logged if the API is not served. While Kubernetes' own controllers
//! act, which their lease or their writes show, this one withdraws its entries and writes nothing: an
//! EvictionRequest is carried out by one of the two.

mod acts;
mod engine;
mod others;
mod targets;

pub use engine::EvictionRequestOptions;
pub(crate) use engine::EvictionRequests;
