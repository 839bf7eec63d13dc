//! The handler: runs the work for a question, and turns its verdict into an answer.

use std::time::Duration;

use async_trait::async_trait;
use evacuation_client::{Answer, Handler, Question};

use crate::{
    context::{Context, Event},
    options::OnError,
    owner::Owner,
    plain,
    verdict::Verdict,
    work::Work,
};

/// Time for the work before the agent asks for a delay: quick work needs none. A registration gives at least
/// a second to answer.
const HEAD_START: Duration = Duration::from_millis(300);

/// Answers questions by doing the work.
pub(crate) struct Answering {
    pub(crate) work: Work,
    /// Delay that is renewed while the work runs.
    pub(crate) hold: Duration,
    /// Time to the next question after a refusal that names none.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) on_error: OnError,
}

#[async_trait]
impl Handler for Answering {
    async fn asked(&self, question: Question) -> Answer {
        tracing::info!(evacuation = %question.name(), requesters = %question.wanted_by(), "asked");
        let told = question.clone();
        let work = self.work.verdict(Owner::of(&question), move || Context::of(Event::Ask, &told.newest()));
        tokio::pin!(work);
        let verdict = match tokio::time::timeout(HEAD_START, &mut work).await {
            Ok(verdict) => Some(verdict),
            Err(_) => question.hold(self.hold, work).await.ok(),
        };
        match verdict.and_then(|verdict| self.answer(verdict)) {
            Some(answer) => answer,
            // The question has ended, or gets no answer: the platform continues after the timeout.
            None => std::future::pending().await,
        }
    }

    async fn canceled(&self, question: Question) {
        tracing::info!(evacuation = %question.name(), "canceled");
        self.work.cancel(Context::of(Event::Cancel, &question)).await;
    }
}

impl Answering {
    /// The answer to a verdict, unless the agent stays silent.
    fn answer(&self, verdict: Verdict) -> Option<Answer> {
        let (answer, message) = match verdict {
            Verdict::Accept { message } => (Answer::accept(), message),
            Verdict::Delay { time, message } => (Answer::delay(time).ask_again(), message),
            Verdict::Refuse { message, retry_after } => (refuse(retry_after.or(self.retry_after)), message),
            Verdict::Failure { message } => {
                tracing::warn!("the work gave no answer: following --on-error {:?}", self.on_error);
                match self.on_error {
                    OnError::Accept => (Answer::accept(), message),
                    OnError::Refuse => (refuse(self.retry_after), message),
                    OnError::Silent => return None,
                }
            }
        };
        // A failure's message holds texts of others, such as the name of a program or an error of the system.
        let message = plain::message(&message);
        Some(if message.is_empty() { answer } else { answer.message(message) })
    }
}

fn refuse(retry_after: Option<Duration>) -> Answer {
    let answer = Answer::refuse("");
    match retry_after {
        Some(time) => answer.retry_after(time),
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{action::Action, bounds::Bounds};

    fn answering(on_error: OnError, retry_after: Option<Duration>) -> Answering {
        let bounds = Bounds { limit: Duration::from_secs(1), grace: Duration::from_secs(1) };
        Answering {
            work: Work::new(Action::Exec(vec!["true".into()]), None, bounds),
            hold: Duration::from_secs(30),
            retry_after,
            on_error,
        }
    }

    #[test]
    fn no_answer_carries_what_the_api_would_not_take() {
        let message = format!("/\u{1b}[31m{} did not start", "x".repeat(5000));
        let answer = answering(OnError::Refuse, None).answer(Verdict::Failure { message });
        assert_eq!(answer, Some(Answer::refuse(format!("/{}", "x".repeat(1023)))));
    }

    #[test]
    fn a_verdict_is_answered_and_a_failure_as_it_was_chosen() {
        let minute = Duration::from_mins(1);
        let message = || "why".to_owned();
        let failure = || Verdict::Failure { message: message() };
        let refusal = |retry_after| Verdict::Refuse { message: message(), retry_after };
        let accept = Some(Answer::accept().message("why"));
        for (on_error, retry_after, verdict, expected) in [
            (OnError::Silent, None, Verdict::Accept { message: message() }, accept.clone()),
            (OnError::Silent, None, Verdict::Accept { message: String::new() }, Some(Answer::accept())),
            (
                OnError::Silent,
                None,
                Verdict::Delay { time: minute, message: message() },
                Some(Answer::delay(minute).ask_again().message("why")),
            ),
            (OnError::Accept, None, refusal(None), Some(Answer::refuse("why"))),
            (OnError::Accept, Some(minute), refusal(None), Some(Answer::refuse("why").retry_after(minute))),
            (
                OnError::Accept,
                Some(minute),
                refusal(Some(minute * 2)),
                Some(Answer::refuse("why").retry_after(minute * 2)),
            ),
            (OnError::Accept, None, failure(), accept),
            (OnError::Refuse, Some(minute), failure(), Some(Answer::refuse("why").retry_after(minute))),
            (OnError::Silent, None, failure(), None),
        ] {
            let said = format!("{on_error:?} {verdict:?}");
            assert_eq!(answering(on_error, retry_after).answer(verdict), expected, "{said}");
        }
    }
}
