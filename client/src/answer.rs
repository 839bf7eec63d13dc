//! Answers that a handler returns.

use std::time::Duration;

use evacuation_api::{Answer as Word, EvacuationResponseSpec, MAX_DELAY_SECONDS};

/// The answer to a [`Question`](crate::Question).
///
/// The server counts in whole seconds. Parts of a second are rounded up; a longer time than
/// [`Answer::LONGEST`] is cut to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an answer counts only when the handler returns it"]
pub struct Answer {
    word: Word,
    delay: Option<Duration>,
    ask_again: bool,
    retry_after: Option<Duration>,
    reason: Option<String>,
    message: Option<String>,
}

impl Answer {
    /// Maximum time that an answer can name: 30 days.
    pub const LONGEST: Duration = Duration::from_secs(MAX_DELAY_SECONDS.unsigned_abs());

    /// Lets the pod go. It binds until the eviction or the cancellation: stop taking new work.
    pub fn accept() -> Self {
        Self::of(Word::Accept)
    }

    /// Delays the eviction for `time`; then the platform continues without asking again.
    ///
    /// [`Answer::ask_again`] has the handler called before the end. [`Question::hold`](crate::Question::hold)
    /// delays for as long as some work takes.
    pub fn delay(time: Duration) -> Self {
        Self { delay: Some(time.min(Self::LONGEST)), ..Self::of(Word::Delay) }
    }

    /// Keeps the pod where it is. The requesters' policy decides what follows; under `Wait` the app can
    /// change its answer later through [`Question::answer`](crate::Question::answer).
    pub fn refuse(message: impl Into<String>) -> Self {
        Self::of(Word::Refuse).message(message)
    }

    /// For a delay: calls the handler again after two thirds of the granted time. It can then renew the delay
    /// or accept.
    pub fn ask_again(mut self) -> Self {
        self.ask_again = true;
        self
    }

    /// For a refusal: calls the handler again after `time`.
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time.min(Self::LONGEST));
        self
    }

    /// Reason in CamelCase for machines, such as `BackupRunning`.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Reason in words for people.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    fn of(word: Word) -> Self {
        Self { word, delay: None, ask_again: false, retry_after: None, reason: None, message: None }
    }

    /// Time from the record of the answer to the next call of the handler, if there is one.
    pub(crate) fn call_again_after(&self, granted: Option<Duration>) -> Option<Duration> {
        match self.word {
            Word::Accept => None,
            Word::Delay => self.ask_again.then(|| granted.or(self.delay).unwrap_or_default() * 2 / 3),
            Word::Refuse => self.retry_after,
        }
    }

    /// The answer without reason and message, which are the only parts that the API can find invalid.
    pub(crate) fn bare(&self) -> Self {
        Self { reason: None, message: None, ..self.clone() }
    }

    pub(crate) fn into_spec(self, responder: &str) -> EvacuationResponseSpec {
        EvacuationResponseSpec {
            responder: Some(responder.to_owned()),
            answer: Some(self.word),
            delay_seconds: self.delay.map(whole_seconds),
            retry_after_seconds: self.retry_after.map(whole_seconds),
            reason: self.reason,
            message: self.message,
            ..EvacuationResponseSpec::default()
        }
    }
}

/// Seconds, rounded up, at least one.
fn whole_seconds(time: Duration) -> i64 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i64::try_from(seconds.max(1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_second_are_rounded_up_and_nothing_is_zero() {
        for (time, seconds) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(time)), seconds, "{time} ms");
        }
    }

    #[test]
    fn a_delay_is_asked_again_before_the_granted_time_ends_and_only_on_demand() {
        let delay = Answer::delay(Duration::from_secs(30));
        assert_eq!(delay.call_again_after(None), None);
        assert_eq!(
            delay.ask_again().call_again_after(Some(Duration::from_secs(9))),
            Some(Duration::from_secs(6))
        );
    }

    #[test]
    fn no_time_is_longer_than_the_api_takes() {
        let spec = Answer::delay(Duration::MAX).into_spec("self");
        assert_eq!(spec.delay_seconds, Some(MAX_DELAY_SECONDS));
        let month_and_more = Answer::LONGEST + Duration::from_secs(1);
        let spec = Answer::refuse("").retry_after(month_and_more).into_spec("self");
        assert_eq!(spec.retry_after_seconds, Some(MAX_DELAY_SECONDS));
        // Nor does counting with it overflow.
        let again = Answer::delay(Duration::MAX).ask_again().call_again_after(None);
        assert_eq!(again, Some(Answer::LONGEST * 2 / 3));
    }

    #[test]
    fn a_refusal_carries_its_message_and_when_to_ask_again() {
        let spec = Answer::refuse("backup runs").retry_after(Duration::from_mins(1)).into_spec("self");
        assert_eq!(spec.answer, Some(Word::Refuse));
        assert_eq!(spec.message.as_deref(), Some("backup runs"));
        assert_eq!(spec.retry_after_seconds, Some(60));
        assert_eq!(spec.delay_seconds, None);
    }
}
