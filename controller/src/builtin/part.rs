//! The part of a built-in responder in one Evacuation, and the times that bound it.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{Answer, DeadlineAction, Evacuation, ResponderState, ResponderStatus};

use crate::cluster::is_finished;

/// Delay that a built-in responder asks for, in seconds. It is longer than another controller takes to take
/// over.
pub(crate) const DELAY_SECONDS: i64 = 120;
/// Rest of a delay at which it is renewed, in seconds.
const RENEW_SECONDS: i64 = 60;

/// The part of a responder in one Evacuation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part<'a> {
    pub(crate) evacuation: &'a Evacuation,
    pub(crate) responder: &'a ResponderStatus,
}

/// Next renewal of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The responder asks for it now.
    Due,
    /// The responder asks for it at that time.
    At(DateTime<Utc>),
    /// The server would grant nothing more.
    Exhausted,
}

impl<'a> Part<'a> {
    /// Returns the part of the responder of that name, if it has one.
    pub(crate) fn of(evacuation: &'a Evacuation, name: &str) -> Option<Self> {
        let responders = evacuation.status.as_ref()?.responders.as_ref()?;
        let responder = responders.iter().find(|responder| responder.name == name)?;
        Some(Self { evacuation, responder })
    }

    /// Name of the Evacuation.
    pub(crate) fn name(&self) -> &'a str {
        self.evacuation.metadata.name.as_deref().unwrap_or_default()
    }

    /// UID of the Evacuation.
    pub(crate) fn uid(&self) -> &'a str {
        self.evacuation.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns true if the Evacuation targets the pod of that UID.
    pub(crate) fn targets(&self, uid: Option<&str>) -> bool {
        self.evacuation.spec.target.pod.uid.as_deref() == uid
    }

    /// Returns true while the responder is active.
    pub(crate) fn is_active(&self) -> bool {
        self.responder.state == ResponderState::Active && !is_finished(self.evacuation)
    }

    /// Returns true while the server waits for an answer: none was given yet, or a delay runs.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_active() && matches!(self.responder.answer, None | Some(Answer::Delay))
    }

    /// Returns true if the Evacuation was canceled after the responder was asked, and the responder has not
    /// acknowledged it.
    pub(crate) fn must_acknowledge(&self) -> bool {
        self.responder.state == ResponderState::Canceled
            && self.responder.active_time.is_some()
            && !self.responder.cancellation_acknowledged
    }

    /// End of the maximum total delay.
    pub(crate) fn longest_delay_ends(&self) -> DateTime<Utc> {
        match self.responder.active_time {
            Some(since) => after(since.0, self.responder.max_delay_seconds),
            None => DateTime::<Utc>::MAX_UTC,
        }
    }

    /// End of every delay: the maximum total delay, or a deadline that skips the responders.
    fn delays_end(&self) -> DateTime<Utc> {
        let policy = self.evacuation.status.iter().flat_map(|status| &status.policy);
        policy
            .flat_map(|policy| &policy.deadlines)
            .filter(|deadline| deadline.action != DeadlineAction::GiveUp)
            .map(|deadline| deadline.time.0)
            .chain([self.longest_delay_ends()])
            .min()
            .unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// Returns the next renewal of a delay.
    pub(crate) fn renewal(&self, now: DateTime<Utc>) -> Renewal {
        let end = self.delays_end();
        if end <= after(now, 1) {
            return Renewal::Exhausted;
        }
        let Some(until) = self.responder.delay_until.map(|until| until.0) else {
            return Renewal::Due;
        };
        let due = after(until, -RENEW_SECONDS);
        if now < due {
            Renewal::At(due)
        } else if after(until, 1) < end {
            Renewal::Due
        } else {
            Renewal::Exhausted
        }
    }
}

/// Returns `time` plus that number of seconds, or the end of time if that overflows.
pub(crate) fn after(time: DateTime<Utc>, seconds: i64) -> DateTime<Utc> {
    TimeDelta::try_seconds(seconds)
        .and_then(|delta| time.checked_add_signed(delta))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Returns the sooner of two times, either of which may be missing.
pub(crate) fn sooner(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin::testing::{at, evacuation, time};

    #[test]
    fn a_delay_is_renewed_well_before_it_ends_and_not_beyond_its_bounds() {
        let delayed = |until: i64| json!({"answer": "Delay", "delayUntil": time(until)});
        let capped = |until: i64, most: i64| json!({"answer": "Delay", "delayUntil": time(until), "maxDelaySeconds": most});
        let table: Vec<(Value, i64, i64, Renewal)> = vec![
            (json!({}), 3600, 0, Renewal::Due),
            (json!({"answer": "Refuse"}), 3600, 300, Renewal::Due),
            (delayed(120), 3600, 10, Renewal::At(at(60))),
            (delayed(120), 3600, 60, Renewal::Due),
            (capped(100, 100), 3600, 60, Renewal::Exhausted),
            (capped(100, 101), 3600, 60, Renewal::Exhausted),
            (capped(100, 200), 3600, 60, Renewal::Due),
            (json!({"maxDelaySeconds": 20}), 3600, 19, Renewal::Exhausted),
            (delayed(90), 90, 40, Renewal::Exhausted),
            (json!({}), 90, 89, Renewal::Exhausted),
            (json!({}), 90, 20, Renewal::Due),
        ];
        for (responder, deadline, now, expected) in table {
            let mut evacuation = evacuation("e", "a.b/c", &responder);
            evacuation.status.as_mut().unwrap().policy = Some(
                serde_json::from_value(json!({"onRefusal": "Wait", "deadlines": [
                    {"requester": "a.b/r", "time": time(5), "action": "GiveUp"},
                    {"requester": "a.b/s", "time": time(deadline), "action": "Evict"},
                ]}))
                .unwrap(),
            );
            let part = Part::of(&evacuation, "a.b/c").unwrap();
            assert_eq!(part.renewal(at(now)), expected, "{responder} {deadline} {now}");
        }
    }
}
