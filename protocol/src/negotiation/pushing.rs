//! The questions that are due to endpoints.

use chrono::{DateTime, Utc};
use evacuation_api::{Answer, EvacuationStatus, ResponderStatus, ReviewAction};

use super::{Act, Delivered, Push, step::Step};
use crate::responders::{asked_again_at, longest_end, reminder_period, reminder_time};

impl Step<'_> {
    /// Pushes the question that is due to the Active responder, or wakes when one is due.
    pub(super) fn push_questions(&mut self, responder: &ResponderStatus) {
        if !responder.is_pushed() {
            return;
        }
        let Some((action, due)) = question_due(&self.next, responder) else {
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

/// Returns the time until which an endpoint that asked for time can answer its reminder: as long after the
/// delivery as after one in time, at least the time of one exchange, up to [`longest_end`]. What nobody asked
/// is no silence of the app, so that is the end before the delivery.
pub(super) fn reminder_answered_by(
    responder: &ResponderStatus,
    asked: Option<&Delivered>,
) -> Option<DateTime<Utc>> {
    let time = reminder_time(responder)?;
    let due = reminder_due(responder)?;
    let is_its =
        |asked: &&Delivered| asked.question.action == ReviewAction::Remind && asked.question.due == due;
    let reminded = asked.filter(is_its);
    let reminded = reminded.and_then(Delivered::tried);
    let end = longest_end(responder)?;
    Some(reminded.and_then(|tried| tried.checked_add_signed(time)).map_or(end, |by| by.min(end)))
}

/// Returns the question that is due to an Active responder, and its time: the question itself; a reminder
/// when two thirds of a delay are over, so that the responder can renew it in time; a reminder when the
/// responder may reconsider a refusal.
pub(super) fn question_due(
    status: &EvacuationStatus,
    responder: &ResponderStatus,
) -> Option<(ReviewAction, DateTime<Utc>)> {
    match responder.answer {
        None => responder.active_time.map(|since| (ReviewAction::Ask, since.0)),
        Some(Answer::Delay) => Some((ReviewAction::Remind, reminder_due(responder)?)),
        Some(Answer::Refuse) => Some((ReviewAction::Remind, asked_again_at(status, responder)?)),
        Some(Answer::Accept) => None,
    }
}

/// Returns the time at which an endpoint is reminded of its delay.
fn reminder_due(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    responder.delay_until?.0.checked_sub_signed(reminder_period(responder)?)
}
