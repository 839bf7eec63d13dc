//! Events on Evacuations and their pods.
//!
//! # Flow
//!
//! A feature hands a [`Notice`] to the [`EventSink`], which never waits. One task takes the notices from the
//! sink and creates an Event, or counts the notice in the series of an Event that says the same.
//!
//! # Guarantees
//!
//! Equal notices on one object are one Event with a count. A notice waits for a second, so that its Event
//! does not hold up the calls that move the pod; an end takes the place of the progress that waits. A series
//! is written at most once in [`series::PACE`]. While the API is slow, warnings and ends come before
//! progress, and a namespace holds at most its share of the sink.

mod backlog;
mod notice;
mod publisher;
mod record;
mod series;
mod sink;

pub(crate) use notice::Notice;
pub(crate) use publisher::{LAST_EVENTS, publish_events};
pub(crate) use sink::EventSink;
