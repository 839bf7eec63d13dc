//! Events on Kubernetes objects.
//!
//! # Flow
//!
//! A program hands a [`Notice`] about an object to the [`EventSink`], which never waits. One task,
//! [`publish_events`], takes the notices from the sink and creates an Event, or counts the notice in the
//! series of an Event that says the same.
//!
//! # Guarantees
//!
//! Equal notices on one object are one Event with a count. A notice waits for a second, so that its Event
//! does not hold up the calls that matter; an end takes the place of the progress that waits. A series
//! is written at most once in 30 s. While the API is slow, warnings and ends come before progress, namespaces
//! take turns, and a namespace holds at most its share of the sink.

mod backlog;
mod notice;
mod publisher;
mod record;
mod series;
mod sink;

pub use notice::Notice;
pub use publisher::{LAST_EVENTS, Reporter, publish_events};
pub use sink::EventSink;
