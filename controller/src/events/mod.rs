//! Events on Evacuations and their pods.

mod notice;
mod recorder;

pub(crate) use notice::{Notice, notices};
pub(crate) use recorder::{EventSink, publish_events};
