//! One Event, as the features hand it to the sink.

/// One Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// CamelCase, for machines.
    pub(crate) reason: &'static str,
    /// Whether something went wrong or needs attention.
    pub(crate) warning: bool,
    /// For people.
    pub(crate) note: String,
}

impl Notice {
    /// A notice of something that went as it should.
    pub(crate) fn normal(reason: &'static str, note: String) -> Self {
        Self { reason, warning: false, note }
    }

    /// A notice of something that went wrong or needs attention.
    pub(crate) fn warning(reason: &'static str, note: String) -> Self {
        Self { reason, warning: true, note }
    }
}
