//! The audit log of an API server: `audit.k8s.io/v1` policies and events, and the log file.
//!
//! # Flow
//!
//! A [`Policy`] is read from its file once, at the start. For each request a [`Decision`] follows from
//! it: the [`Level`], and the [`Stage`]s that are left out. The server fills an [`Event`] and gives a
//! copy of it to the [`AuditLog`] at each stage. A thread of the log writes the events as lines of JSON
//! and rotates the file.
//!
//! # Guarantees
//!
//! The policy and the events are pure: they do neither I/O nor read a clock. An event holds no header but
//! `User-Agent` and the addresses of `X-Forwarded-For` and `X-Real-Ip`, so no token is in it. Objects are in
//! it only at the levels that ask for them.
//!
//! The queue of the log is bounded, in events and in bytes, with a share for each user: a user that floods it
//! loses events of its own only. A disk that stalls delays no request in the mode [`Mode::Batch`]. In the
//! other modes it delays a request by at most the log's patience. Every event that is not written is counted.

mod annotations;
mod event;
mod file;
mod level;
mod line;
mod log;
mod policy;
mod policy_error;
mod queue;
mod rule;

pub use annotations::AuditAnnotations;
pub use event::{Body, Event, ObjectReference, ResponseStatus, User};
pub use level::{Level, Stage};
pub use log::{AuditLog, Failures, LogError, LogOptions, Mode, NotRecorded};
pub use policy::{Decision, GroupResources, Policy, PolicyRule};
pub use policy_error::PolicyError;
