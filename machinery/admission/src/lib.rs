//! Admission plugins for an aggregated API server.
//!
//! kube-apiserver runs no admission for requests that it proxies to an aggregated API. [`Plugins`] runs it in
//! the aggregated server, by the configurations of the cluster. It is the server's
//! [`Admission`](machinery_server::Admission).
//!
//! # Plugins
//!
//! In this order, as upstream:
//!
//! 1. `MutatingAdmissionWebhook`: the webhooks of MutatingWebhookConfigurations, one after another, and once
//!    again those that ask for it when a later one changed the object.
//! 2. `ValidatingAdmissionPolicy`: expressions in CEL, with bindings and params.
//! 3. `ValidatingAdmissionWebhook`: the webhooks of ValidatingWebhookConfigurations, all at once.
//! 4. `ResourceQuota`: object counts (`count/RESOURCE.GROUP`).
//!
//! # Guarantees
//!
//! A write is decided by one state of the configurations. Until every configuration was read once, writes
//! wait for ten seconds and are then refused. A write that no configuration matches costs a look at a table.
//!
//! Calls of webhooks and evaluations of expressions have limits with a share for each user, and a reserve for
//! the server's priority users. A caller that has used up its share waits, and is refused with a 429 in the
//! end. It never passes unadmitted for that reason.
//!
//! # Caveats
//!
//! - An expression can iterate a million times, and for a second. The cost of one library function is limited
//!   only by the sizes of its arguments. After five seconds no further policy of a write is evaluated.
//! - A panic of the library is an error of its expression.
//! - Expressions are not type-checked. An error shows when the expression is evaluated, and then the
//!   `failurePolicy` decides.
//! - `authorizer` has no `fieldSelector` and `labelSelector`, and CEL no `cel.bind` and no `type`.
//! - Params are read when they are needed, 4 MiB at most at once, and kept for two seconds.

mod cel;
mod configurations;
mod form;
#[doc(hidden)]
pub mod fuzzing;
mod limiter;
mod matching;
mod metrics;
mod params;
mod plugin;
mod plugins;
mod policy;
mod quota;
mod refusal;
mod request;
mod subject;
#[cfg(test)]
mod testing;
mod watch;
mod webhook;

pub use metrics::AdmissionMetrics;
pub use plugin::Plugin;
pub use plugins::{AdmissionOptions, Plugins};
pub use refusal::QUOTA_CAUSE;
pub use webhook::TokenAccount;
