//! The cluster view and what acts on it: the index, its watches, the clock, the lease, Events and metrics.
//!
//! It knows no feature of the controller.

pub(crate) mod backoff;
pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod events;
pub(crate) mod index;
pub(crate) mod key;
pub(crate) mod lease;
pub(crate) mod metrics;
pub(crate) mod queue;
pub(crate) mod reachability;
pub(crate) mod watch;
