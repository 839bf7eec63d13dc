//! The reply to a caller that has to wait.

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{Answer, ConditionType, Evacuation, ResponderState, ResponderStatus};
use kube::ResourceExt;
use machinery_logging::one_line;

use crate::{call::Call, config::Row};

/// Maximum length of a responder's own words, in bytes.
const MAX_WORDS: usize = 300;

/// The reply to a caller whose call does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// 429, or 404 for a pod that is gone.
    pub(crate) code: u16,
    /// Reason in CamelCase, as in a `metav1.Status`.
    pub(crate) reason: &'static str,
    /// For people: the responder, its answer, its time, and the command that explains it.
    pub(crate) message: String,
    /// Seconds of the header Retry-After; 0 for no header.
    pub(crate) retry_after_seconds: u32,
    /// Cause for machines.
    pub(crate) cause: &'static str,
    /// Name of the Evacuation that explains the reply, if there is one.
    pub(crate) evacuation: Option<String>,
}

impl Reply {
    /// Returns the reply to a caller whose entry is in an Evacuation that has not ended.
    pub(crate) fn waiting(call: &Call, row: &Row, evacuation: &Evacuation) -> Self {
        let mut text = format!("{}: {}", call.target(), state(evacuation));
        let key = row.entry_name();
        let own = evacuation.spec.requesters.iter().find(|e| e.name == key && e.owner == call.user.name);
        if let Some(deadline) = own.and_then(|entry| entry.deadline) {
            let action = own.and_then(|entry| entry.at_deadline).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = write!(text, "; this request counts until {deadline}, then {action:?}");
        }
        Self::with(call, evacuation, &text, row.retry_after_seconds, "EvacuationInProgress")
    }

    /// Returns the reply to a caller whose question was refused a short time ago. It has no Retry-After, so
    /// that a person reads it at once.
    pub(super) fn refused(call: &Call, ended: &Evacuation, message: &str, until: DateTime<Utc>) -> Self {
        let text = format!("{}: {}; it is asked again from {}", call.target(), words(message), stamp(until));
        Self::with(call, ended, &text, 0, "EvacuationRefused")
    }

    /// Returns the reply to a caller that means a pod which is gone.
    pub(super) fn replaced(call: &Call, ended: &Evacuation) -> Self {
        let uid = ended.spec.target.pod.uid.as_deref().unwrap_or_default();
        let text = format!(
            "pods {:?} not found: the pod of UID {uid} is gone, and another pod has its name",
            call.pod
        );
        Self { code: 404, reason: "NotFound", ..Self::with(call, ended, &text, 0, "EvacuationEnded") }
    }

    /// Returns the reply to a deletion that a budget holds back, in the words of the eviction API.
    pub(crate) fn blocked(call: &Call, row: &Row, message: &str) -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!("{}: {}", call.target(), words(message)),
            retry_after_seconds: row.retry_after_seconds,
            cause: "DisruptionBudget",
            evacuation: None,
        }
    }

    /// Returns the reply to a user with too many calls in progress.
    pub(crate) fn busy(call: &Call) -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!(
                "{}: user {} has too many calls in progress, and its apps were not asked yet",
                call.target(),
                call.user.name
            ),
            retry_after_seconds: 1,
            cause: "TooManyCalls",
            evacuation: None,
        }
    }

    /// Returns the reply to a dry run of a call whose app would be asked.
    pub(crate) fn dry_run(call: &Call, row: &Row) -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!("{}: its responders would be asked first (dry run)", call.target()),
            retry_after_seconds: row.retry_after_seconds,
            cause: "EvacuationRequired",
            evacuation: None,
        }
    }

    fn with(call: &Call, evacuation: &Evacuation, text: &str, retry: u32, cause: &'static str) -> Self {
        let name = evacuation.name_any();
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!(
                "{text}; see evacuation {name}, or: kubectl evacuate why {} -n {}",
                call.pod, call.namespace
            ),
            retry_after_seconds: retry,
            cause,
            evacuation: Some(name),
        }
    }
}

/// Returns the state of an Evacuation in words.
fn state(evacuation: &Evacuation) -> String {
    let status = evacuation.status.as_ref();
    let responders = status.and_then(|status| status.responders.as_deref()).unwrap_or_default();
    if let Some(active) = responders.iter().find(|responder| responder.state == ResponderState::Active) {
        return answer(active);
    }
    if responders.iter().any(|responder| responder.state == ResponderState::Inactive) {
        return "its responders are not asked yet".to_owned();
    }
    let blocked = status.and_then(|status| status.true_condition(ConditionType::Blocked));
    match blocked {
        Some(condition) => format!("every responder is done, and {}", words(&condition.message)),
        None => "every responder is done, and the eviction follows".to_owned(),
    }
}

fn answer(responder: &ResponderStatus) -> String {
    let name = &responder.name;
    let own = [&responder.reason, &responder.message];
    let own = own.into_iter().flatten().fold(String::new(), |all, text| all + ": " + &words(text));
    match responder.answer {
        Some(Answer::Accept) => format!("responder {name} accepted{own}"),
        Some(Answer::Refuse) => format!("responder {name} refused{own}"),
        Some(Answer::Delay) => {
            let until = responder.delay_until.map(|time| format!(" until {}", stamp(time.0)));
            format!("responder {name} asked for time{}{own}", until.unwrap_or_default())
        }
        None => {
            let since = responder.active_time.map(|time| format!(" at {}", stamp(time.0)));
            let since = since.unwrap_or_default();
            format!("responder {name} was asked{since} whether the pod may move, and has not answered")
        }
    }
}

/// Returns the words of another party: one line of bounded length.
fn words(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_WORDS);
    one_line(text.get(..end).unwrap_or(text)).into_owned()
}

fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
