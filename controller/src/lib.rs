//! The evacuation controller: negotiates with responders and evicts within budgets.
//!
//! # Flow
//!
//! Watches feed the index; what changed says which Evacuations to reconsider; workers take them from a queue, put
//! together what is seen of each, let `evacuation-protocol` decide, and act: one write of the status a transition, a question to
//! an app, an eviction in its turn.
//!
//! # Guarantees
//!
//! One worker at a time works on an Evacuation. Every write is guarded by the resourceVersion that was decided on, and what it
//! returned is what is decided on next. Nothing is written, posted or asked unless this process leads. What was decided is in the
//! object: a successor goes on where this process stopped.

mod builtin;
mod cluster;
mod controller;
mod negotiation;
mod process;
mod refresh;

use builtin as responders;
use cluster::{
    backoff, calls as error, clock, events, index,
    key::ObjectKey,
    lease,
    lease::{Leadership, NotLeading},
    metrics, queue, reachability, watch,
};
use negotiation::{evictor, push};

pub use process::{LogFormat, Options, RunError, log, run, shutdown_signal};
pub use refresh::RefreshOptions;
