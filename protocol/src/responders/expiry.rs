//! Expiry of the time that a responder has for its answer.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{Answer, EvacuationStatus, ResponderStatus};

use super::answer::MIN_ENDPOINT_DELAY_SECONDS;
use crate::time::after;

/// Maximum time of one exchange with an endpoint, in seconds.
pub const EXCHANGE_SECONDS: i64 = 10;
/// Seconds after which an endpoint that refused is asked again, where its answer has no `retryAfterSeconds`:
/// it cannot speak by itself.
const ASK_ENDPOINT_AGAIN_SECONDS: i64 = 60;

/// Time from which a responder that refused may be asked again. `None` for one that watches and named none.
///
/// Where an endpoint named no time, a requester that joined after its answer is a new question. The time is
/// one of few, each the time of an exchange after the other, so that no coming and going of requesters takes
/// the time of an exchange from the endpoint.
pub fn asked_again_at(status: &EvacuationStatus, responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    if let Some(named) = responder.retry_time {
        return Some(named.0);
    }
    let answered = responder.answer_time.filter(|_| responder.is_pushed())?.0;
    let there = status.requesters.iter().filter(|requester| requester.left_time.is_none());
    let joined = there.filter_map(|requester| requester.joined_time).map(|time| time.0);
    let asked = joined.filter(|joined| answered < *joined).min().map(|joined| {
        let since = joined.signed_duration_since(answered).num_seconds();
        let exchanges = since.div_euclid(EXCHANGE_SECONDS).saturating_add(1);
        after(answered, exchanges.saturating_mul(EXCHANGE_SECONDS))
    });
    let usual = after(answered, ASK_ENDPOINT_AGAIN_SECONDS);
    Some(asked.map_or(usual, |asked| asked.min(usual)))
}

/// Time at which an Active responder expires by its own times: its timeout, or the end of its delay. The
/// silence of a pushed responder counts from the first delivered question, so one that was not asked yet does
/// not expire.
pub(crate) fn expiry_time(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    match responder.answer {
        None => asked_since(responder).map(|since| after(since, responder.timeout_seconds)),
        Some(Answer::Delay) => responder.delay_until.map(|until| until.0),
        Some(Answer::Accept | Answer::Refuse) => None,
    }
}

/// Time from which the silence of an Active responder counts. An endpoint that no question has reached counts
/// as silent since the first attempt, and anew once a question reaches it.
pub(crate) fn asked_since(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    let asked = || responder.asked_time.or(responder.unreachable_time);
    let since = if responder.is_pushed() { asked() } else { responder.active_time };
    since.map(|time| time.0)
}

/// Time until which an endpoint without an answer can answer a controller that tried to ask it at `tried`.
///
/// A controller before may have got an answer and ended without a record of it. So the new one does not count
/// the attempts of the old one: an endpoint that no recorded question has reached has its whole timeout, and
/// any other has the time of one exchange.
pub(crate) fn answerable_until(responder: &ResponderStatus, tried: DateTime<Utc>) -> DateTime<Utc> {
    let timeout = responder.timeout_seconds;
    let was_asked = responder.asked_time.is_some();
    after(tried, if was_asked { timeout.min(EXCHANGE_SECONDS) } else { timeout })
}

/// Returns true when an endpoint could not be reached so far.
pub(crate) fn is_unreachable(responder: &ResponderStatus) -> bool {
    responder.is_pushed() && responder.asked_time.is_none() && responder.unreachable_time.is_some()
}

/// End of all delays of a responder together: its longest total delay after the first question that reached
/// its endpoint. A responder that watches can read the question since it is Active.
pub(crate) fn delays_end(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    let asked = responder.asked_time.filter(|_| responder.is_pushed());
    asked.or(responder.active_time).map(|since| after(since.0, responder.max_delay_seconds))
}

/// Latest time at which an endpoint that asked for time expires, however late its reminder was: its longest
/// total delay, and the shortest one for the answer to a reminder.
pub(crate) fn longest_end(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    let until = responder.delay_until.map(|until| until.0);
    Some(after(delays_end(responder).max(until)?, MIN_ENDPOINT_DELAY_SECONDS))
}

/// Time until which the delay of an endpoint holds although nobody reminds it.
pub(crate) fn held_until(responder: &ResponderStatus) -> Option<DateTime<Utc>> {
    let until = responder.delay_until?.0;
    let unreminded = reminder_time(responder).and_then(|time| until.checked_add_signed(time));
    Some(unreminded.zip(longest_end(responder)).map_or(until, |(time, end)| time.min(end)))
}

/// Time that an endpoint which asked for time has to answer its reminder: a third of the delay, and at least
/// the time of one exchange. After a short delay the responder expires later than its delay ends.
pub(crate) fn reminder_time(responder: &ResponderStatus) -> Option<TimeDelta> {
    reminder_period(responder).map(|period| period.max(TimeDelta::seconds(EXCHANGE_SECONDS)))
}

/// Time between the reminder of an endpoint and the end of its delay: a third of the delay.
pub(crate) fn reminder_period(responder: &ResponderStatus) -> Option<TimeDelta> {
    let (from, until) =
        (responder.answer_time?.0, responder.delay_until.filter(|_| responder.is_pushed())?.0);
    Some(until.signed_duration_since(from) / 3)
}
