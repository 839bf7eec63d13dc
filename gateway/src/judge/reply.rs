//! The reply to a caller that has to wait.

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{Answer, CallerRow, ConditionType, Evacuation, ResponderState, ResponderStatus};
use evacuation_protocol::{Outage, OutageCause};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use machinery_logging::one_line;

use super::{Facts, outage::cause_words, patience};
use crate::call::Call;

/// Maximum length of a responder's own words, in bytes.
const MAX_WORDS: usize = 300;
/// Cause of a reply to a caller who waits for an Evacuation.
const WAITING: &str = "EvacuationInProgress";
/// Cause of a reply to a caller whom an answer holds up in an outage.
const HELD: &str = "AnswerHeld";
/// Cause of a reply to a caller whose question the evacuation API rejects.
pub(crate) const REJECTED: &str = "QuestionRejected";
/// Cause of a reply to a caller whose entry found no room.
pub(crate) const NO_ROOM: &str = "EvacuationLimit";
/// Cause of a reply to a caller whose pod has an Evacuation or a registration that cannot be read.
pub(crate) const UNREADABLE: &str = "EvacuationUnreadable";

/// The reply to a caller whose call does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// 429; 404 for a pod that is gone; 409 for a precondition that does not hold.
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
    /// Returns the reply to a caller whose entry is in an Evacuation that has not ended, or that waits for
    /// that of another pod of the PodGroup.
    pub(crate) fn waiting(call: &Call, row: &CallerRow, evacuation: &Evacuation, now: DateTime<Utc>) -> Self {
        let of_mate = mate(call, evacuation);
        let mut text = format!("{}: {of_mate}{}", call.target(), state(evacuation));
        let key = row.entry_name();
        let mut entries = evacuation.spec.requesters.iter().filter(|_| of_mate.is_empty());
        let own = entries.find(|e| e.name == key && e.owner == call.user.name);
        // Writing to a String cannot fail.
        let _ = match own.map(|own| (own.budget_patience_seconds, own.deadline)) {
            Some((Some(patience), _)) => write!(text, "; {}", counted(call, row, evacuation, patience)),
            Some((None, Some(deadline))) => {
                let action = own.and_then(|entry| entry.at_deadline).unwrap_or_default();
                write!(text, "; this request counts until {deadline}, then {action:?}")
            }
            _ => Ok(()),
        };
        let retry = patience::retry_after(call, row, evacuation, now);
        Self::with(call, evacuation, &text, retry, WAITING)
    }

    /// Returns the reply to a caller whom the answer of the app holds up in an outage, until then at the
    /// latest. `outage` names that in words.
    pub(super) fn held(
        facts: &Facts<'_>,
        evacuation: &Evacuation,
        outage: &str,
        until: DateTime<Utc>,
    ) -> Self {
        let call = facts.call;
        let of_mate = mate(call, evacuation);
        let text =
            format!("{}: {of_mate}{}; {outage}, and this answer holds", call.target(), state(evacuation));
        let text = format!("{text} until {} at the latest", stamp(until));
        let retry = patience::retry_after(call, facts.row, evacuation, facts.now);
        Self::with(call, evacuation, &text, retry, HELD)
    }

    /// Returns the reply without Retry-After: the caller does not repeat the call by itself.
    pub(crate) fn without_retry(self) -> Self {
        Self { retry_after_seconds: 0, ..self }
    }

    /// Returns the reply with the reason for which the Evacuation that it waits for goes on no further.
    pub(crate) fn in_outage(mut self, outage: Outage) -> Self {
        if self.cause == WAITING && outage.cause == OutageCause::Leaderless {
            // Writing to a String cannot fail.
            let _ = write!(
                self.message,
                "; {} since {}: nobody acts on it until one does, and a call passes that no answer holds",
                cause_words(outage.cause),
                stamp(outage.since)
            );
        }
        self
    }

    /// Returns true when the answer of the app holds the caller up in an outage.
    pub(crate) fn is_held(&self) -> bool {
        self.cause == HELD
    }

    /// Returns the reply to a caller whose question was refused a short time ago. It has no Retry-After, so
    /// that a person reads it at once.
    pub(super) fn refused(call: &Call, ended: &Evacuation, message: &str, until: DateTime<Utc>) -> Self {
        let of_mate = mate(call, ended);
        let said = words(message);
        let text = format!("{}: {of_mate}{said}; it is asked again from {}", call.target(), stamp(until));
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

    /// Returns the reply to a caller that requires a state of the pod which it does not have, in the words of
    /// the kube-apiserver.
    pub(crate) fn other_version(call: &Call, pod: &Pod, wanted: &str) -> Self {
        let live = pod.metadata.resource_version.as_deref().unwrap_or_default();
        let wanted = words(wanted);
        Self {
            code: 409,
            reason: "Conflict",
            message: format!(
                "Operation cannot be fulfilled on Pod {:?}: the ResourceVersion in the precondition ({wanted}) \
                 does not match the ResourceVersion in record ({live}). The object might have been modified",
                call.pod
            ),
            retry_after_seconds: 0,
            cause: "ResourceVersionPrecondition",
            evacuation: None,
        }
    }

    /// Returns the reply to a deletion that a budget holds back, in the words of the eviction API.
    pub(crate) fn blocked(call: &Call, row: &CallerRow, message: &str) -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!("{}: {}", call.target(), words(message)),
            retry_after_seconds: row.longest_retry_after(),
            cause: "DisruptionBudget",
            evacuation: None,
        }
    }

    /// Returns the reply to a caller whose entry found no room, in the words of the limit or quota.
    pub(crate) fn no_room(call: &Call, row: &CallerRow, message: &str) -> Self {
        Self { cause: NO_ROOM, ..Self::blocked(call, row, message) }
    }

    /// Returns the reply to a caller whose pod has an Evacuation or a registration that cannot be read, in
    /// the words of the evacuation API.
    pub(crate) fn unreadable(call: &Call, row: &CallerRow, message: &str) -> Self {
        Self { cause: UNREADABLE, ..Self::blocked(call, row, message) }
    }

    /// Returns the reply to a caller whose pod has an Evacuation of that name that the API server could not
    /// read, while the API does not answer. `until` is the end of the hold, once an outage has one.
    pub(crate) fn unread(call: &Call, row: &CallerRow, name: &str, until: Option<DateTime<Utc>>) -> Self {
        let end = until.map(|until| format!(" until {} at the latest", stamp(until))).unwrap_or_default();
        let message = format!(
            "{}, and this call waits{end}: its app may have answered in evacuation {name}, which cannot be \
             read",
            cause_words(OutageCause::Api)
        );
        Self::unreadable(call, row, &message)
    }

    /// Returns the reply to a caller whose question the evacuation API rejects, in its words. The app was not
    /// asked, and the caller can do nothing about it.
    pub(crate) fn rejected(call: &Call, row: &CallerRow, message: &str) -> Self {
        let message = format!("the evacuation API rejects the question to its app: {}", words(message));
        Self { cause: REJECTED, ..Self::blocked(call, row, &message) }
    }

    /// Returns the reply to a user with too many calls in progress.
    pub(crate) fn busy(call: &Call, retry_after_seconds: u32) -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!(
                "{}: user {} has too many calls in progress, and its apps were not asked yet",
                call.target(),
                call.user.name
            ),
            retry_after_seconds,
            cause: "TooManyCalls",
            evacuation: None,
        }
    }

    /// Returns the reply to a call for which every slot of the gateway is taken.
    pub(crate) fn gateway_busy(call: &Call, row: &CallerRow) -> Self {
        Self {
            message: format!(
                "{}: all users together have too many calls in progress, and its app was not asked yet",
                call.target()
            ),
            cause: "GatewayBusy",
            ..Self::busy(call, row.longest_retry_after())
        }
    }

    /// Returns the reply to a dry run of a call whose app would be asked.
    pub(crate) fn dry_run(call: &Call, row: &CallerRow) -> Self {
        Self {
            code: 429,
            reason: "TooManyRequests",
            message: format!("{}: its responders would be asked first (dry run)", call.target()),
            retry_after_seconds: row.longest_retry_after(),
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

/// Returns the start of a sentence about another pod of the called pod's PodGroup. Nothing for that pod
/// itself.
fn mate(call: &Call, evacuation: &Evacuation) -> String {
    let pod = &evacuation.spec.target.pod.name;
    if *pod == call.pod { String::new() } else { format!("pod {pod} of the same PodGroup: ") }
}

/// Returns the end of a counted deletion in words, and what ends it sooner while a budget holds it back.
fn counted(call: &Call, row: &CallerRow, evacuation: &Evacuation, patience: i64) -> String {
    match patience::end(call, row, evacuation) {
        Some(end) => format!(
            "this deletion counts as an eviction, and passes the budget from {} on; sooner when the budget has room, \
             or by: kubectl delete pod {} -n {}",
            stamp(end),
            call.pod,
            call.namespace
        ),
        None => format!("this deletion counts as an eviction: a budget can hold it back for {patience} s"),
    }
}

/// Returns the state of an Evacuation in words.
fn state(evacuation: &Evacuation) -> String {
    let status = evacuation.status.as_ref();
    if let Some(failed) = status.and_then(|status| status.true_condition(ConditionType::Failed)) {
        return words(&failed.message);
    }
    let responders = status.and_then(|status| status.responders.as_deref()).unwrap_or_default();
    if let Some(active) = responders.iter().find(|responder| responder.state == ResponderState::Active) {
        return answer(active);
    }
    let blocked = status.and_then(|status| status.true_condition(ConditionType::Blocked));
    if responders.iter().any(|responder| responder.state == ResponderState::Inactive) {
        let why = blocked.map(|condition| format!(": {}", words(&condition.message))).unwrap_or_default();
        return format!("its responders are not asked yet{why}");
    }
    match blocked {
        Some(condition) => format!("every responder is done, and {}", words(&condition.message)),
        None => "every responder is done, and the eviction follows".to_owned(),
    }
}

fn answer(responder: &ResponderStatus) -> String {
    let name = &responder.name;
    let own = [&responder.reason, &responder.message];
    let mut own = own.into_iter().flatten().fold(String::new(), |all, text| all + ": " + &words(text));
    if let Some(failure) = &responder.failure {
        own.push_str("; since then: ");
        own.push_str(&words(failure));
    }
    match responder.answer {
        Some(Answer::Accept) => format!("responder {name} accepted{own}"),
        Some(Answer::Refuse) => format!("responder {name} refused{own}"),
        Some(Answer::Delay) => {
            let until = responder.delay_until.map(|time| format!(" until {}", stamp(time.0)));
            format!("responder {name} asked for time{}{own}", until.unwrap_or_default())
        }
        None if let Some(since) = responder.unreachable_time.filter(|_| responder.asked_time.is_none()) => {
            format!("responder {name} could not be reached since {}{own}", stamp(since.0))
        }
        None => {
            let since = responder.active_time.map(|time| format!(" at {}", stamp(time.0)));
            let since = since.unwrap_or_default();
            format!("responder {name} was asked{since} whether the pod may move, and has not answered{own}")
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
