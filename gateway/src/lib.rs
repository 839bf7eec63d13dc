//! The gateway: admission webhooks that bring evictions and deletions by others into the protocol.
//!
//! # Flow
//!
//! The kube-apiserver posts an AdmissionReview for each creation of `pods/eviction` and each deletion of a
//! pod (`webhook`). `gateway` gathers the facts from caches (`cluster`) and the table of callers (`config`).
//! `judge`, a pure function, decides: the call passes, or its caller has to wait. A caller that has to wait
//! gets an entry in an Evacuation (`asking`), which names it and expires when it stops trying. A deletion
//! that counts against budgets is turned into an eviction (`ledger`).
//!
//! # Guarantees
//!
//! A call is answered within 800 ms. A call without an answer by then passes, unless its app is being asked
//! already. A metric and an Event on the pod name it. A call that does not pass is explained by an Evacuation
//! or by the words of the eviction API, except where one user has too many calls in progress. The process
//! keeps no state but caches.
//!
//! # Modules
//!
//! The modules depend on each other in one direction: process, webhook, gateway, then the others.

mod asking;
mod call;
mod cluster;
mod config;
mod events;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod judge;
mod ledger;
mod limiter;
mod metrics;
mod namespace;
mod pod;
mod process;
mod rights;
#[cfg(test)]
mod testing;
mod warnings;
mod webhook;

pub use config::{ConfigurationError, check};
pub use process::{Options, RunError, run};
