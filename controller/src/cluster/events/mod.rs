//! Events on Evacuations and their pods.

mod notice;
mod recorder;

pub(crate) use notice::Notice;
pub(crate) use recorder::{EventSink, publish_events};
