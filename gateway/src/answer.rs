//! The answer to a call.

use crate::judge::{Pass, Reply, WayOut};

/// Reason for which a call passed although the app should have been asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// The caches are not filled yet.
    Starting,
    /// There was no answer within the deadline.
    Late,
    /// The evacuation API did not take the question.
    ApiDown,
    /// An outage lasts.
    Outage(WayOut),
    /// The pod could not be read.
    PodUnread,
    /// All users together have too many calls in progress.
    Busy,
}

impl Unasked {
    /// Returns the word for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Late => "late",
            Self::ApiDown => "api_down",
            Self::Outage(way) => way.as_str(),
            Self::PodUnread => "pod_unread",
            Self::Busy => "busy",
        }
    }

    /// Returns the reason of the Event.
    pub(crate) fn event(self) -> &'static str {
        match self {
            Self::Outage(way) => way.event(),
            _ => "PassedUnasked",
        }
    }

    /// Returns the reason as the rest of a sentence: "alice could evict the pod ...".
    pub(crate) fn words(self) -> String {
        let reason = match self {
            Self::Starting => "the gateway has just started",
            Self::Late => "the gateway had no answer in time",
            Self::ApiDown => "the evacuation API did not answer",
            Self::Outage(way) => return way.words(),
            Self::PodUnread => "the pod could not be read",
            Self::Busy => "the gateway has too many calls in progress",
        };
        format!("unasked: {reason}")
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The call passes.
    Pass(Pass),
    /// The call passes although the app should have been asked.
    Unasked(Unasked),
    /// The caller waits.
    Wait(Reply),
}
