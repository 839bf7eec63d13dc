//! The gateway: admission webhooks that bring evictions and deletions by others into the protocol.
//!
//! # Flow
//!
//! The kube-apiserver posts an AdmissionReview for each creation of `pods/eviction` and each deletion of a
//! pod (`webhook`). `gateway` gathers the facts from caches (`cluster`) and the table of callers (`config`).
//! `judge`, a pure function, decides: the call passes, or its caller has to wait. A caller that has to wait
//! gets an entry in an Evacuation (`asking`), which names it and expires when it stops trying. A deletion
//! that counts against budgets is turned into an eviction (`ledger`). The entry of a workload controller
//! leaves when the pod's owner no longer wants the deletion (`interest`).
//!
//! # Guarantees
//!
//! A call is answered within 800 ms. A call without an answer by then passes, unless its app is being asked
//! already or a flood of calls takes every slot. A metric and an Event on the pod name it. A call that does
//! not pass is explained by an Evacuation or by the words of the eviction API, except where too many calls
//! are in progress. The process keeps no state but caches.
//!
//! # Modules
//!
//! The modules depend on each other in one direction: process, webhook, gateway, then the others.

mod answer;
mod asking;
mod attestation;
mod call;
mod cluster;
mod config;
mod events;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod interest;
mod judge;
mod ledger;
mod limiter;
mod metrics;
mod namespace;
mod node;
mod owner;
mod paging;
mod path_tokens;
mod pod;
mod process;
mod rights;
mod surplus;
#[cfg(test)]
mod testing;
mod warnings;
mod webhook;

pub use config::{ConfigurationError, check, reference};
pub use process::{Options, RunError, run};
