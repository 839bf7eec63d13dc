//! Fairness between callers: limits with shares, and queues in which requests wait for their turn.
//!
//! # Flow
//!
//! A request takes a [`Permit`] of each resource of the server that it uses ([`Limiters`]). A
//! [`Limiter`] admits it when the limits and shares (`limits`, `usage`) have room. Otherwise the
//! request waits in the queue of its flow (`queues`). When a permit is dropped, the flows take turns,
//! and in a flow its callers.
//!
//! # Guarantees
//!
//! A flow is a user, or all service accounts of a namespace. However many requests a flow has waiting,
//! they delay a request of another flow by one turn. The queues are bounded, with a share for each
//! caller and flow. When they are full, a request of a flow that waits with few displaces the newest
//! request of the flow with most, and priority users displace others. A request that leaves, such as
//! one whose client has gone, leaves its place at once.

mod limiter;
mod limiters;
mod limits;
mod permit;
mod queues;
mod usage;

pub(crate) use self::{limiters::Limiters, permit::Permit};
