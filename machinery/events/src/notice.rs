//! One Event, as the features hand it to the sink.

/// One Event.
///
/// The note must not contain times or counters. Notices are one Event with a count only while their notes are
/// equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// CamelCase, for machines.
    pub reason: &'static str,
    /// True if something went wrong or needs attention.
    pub warning: bool,
    /// True for progress that a later Event of the same object implies. It is the first to be dropped.
    pub progress: bool,
    /// True for an end. It takes the place of the progress of the same object that waits to be published.
    pub end: bool,
    /// For people.
    pub note: String,
}

impl Notice {
    /// Returns a notice of something that the owner of the pod should know.
    pub fn normal(reason: &'static str, note: String) -> Self {
        Self { reason, warning: false, progress: false, end: false, note }
    }

    /// Returns a notice of something that went wrong or needs attention.
    pub fn warning(reason: &'static str, note: String) -> Self {
        Self { warning: true, ..Self::normal(reason, note) }
    }

    /// Returns the notice of an end.
    #[must_use]
    pub fn ending(self) -> Self {
        Self { end: true, ..self }
    }

    /// Returns a notice of progress.
    pub fn progress(reason: &'static str, note: String) -> Self {
        Self { progress: true, ..Self::normal(reason, note) }
    }
}
