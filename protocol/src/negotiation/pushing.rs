//! The questions that are due to endpoints.

use chrono::{DateTime, Utc};
use evacuation_api::{Answer, ResponderStatus, ReviewAction};

use super::{Act, Push, step::Step};
use crate::time::after;

/// Seconds after which an endpoint that refused is asked again, where its answer has no `retryAfterSeconds`:
/// it cannot speak by itself.
pub const ASK_ENDPOINT_AGAIN_SECONDS: i64 = 60;

impl Step<'_> {
    /// Pushes the question that is due to the Active responder, or wakes when one is due.
    pub(super) fn push_questions(&mut self, responder: &ResponderStatus) {
        if !responder.is_pushed() {
            return;
        }
        let Some((action, due)) = question_due(responder) else {
            return;
        };
        if due <= self.now {
            let responder = responder.name.clone();
            self.acts.push(Act::Push(Push { responder, action, due }));
        } else {
            self.wake(due);
        }
    }
}

/// Returns the question that is due to an Active responder, and its time: the question itself; a reminder
/// when two thirds of a delay are over, so that the responder can renew it in time; a reminder when the
/// responder may reconsider a refusal.
fn question_due(responder: &ResponderStatus) -> Option<(ReviewAction, DateTime<Utc>)> {
    match responder.answer {
        None => responder.active_time.map(|since| (ReviewAction::Ask, since.0)),
        Some(Answer::Delay) => {
            let (from, until) = (responder.answer_time?.0, responder.delay_until?.0);
            let third = until.signed_duration_since(from) / 3;
            Some((ReviewAction::Remind, until.checked_sub_signed(third)?))
        }
        Some(Answer::Refuse) => {
            let usual = || Some(after(responder.answer_time?.0, ASK_ENDPOINT_AGAIN_SECONDS));
            Some((ReviewAction::Remind, responder.retry_time.map(|time| time.0).or_else(usual)?))
        }
        Some(Answer::Accept) => None,
    }
}
