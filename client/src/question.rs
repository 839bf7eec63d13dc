//! The question that a handler answers.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use evacuation_api::{EvacuationResponseSpec, EvacuationResponseStatus, RefusalPolicy, Requester};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, RespondError,
    asked::Asked,
    error_chain,
    post::{Post, Until},
};

/// The platform's question: may this pod go?
///
/// It is cheap to clone and outlives the handler's call, so that the app can change its answer later. It is a
/// snapshot of the moment of the call. Requesters join, leave, and change their policies and deadlines: see
/// [`Question::newest`] and [`Question::changed`].
#[derive(Clone)]
pub struct Question {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) pod: String,
    pub(crate) asked: Asked,
    pub(crate) news: watch::Receiver<Asked>,
    pub(crate) poster: Arc<dyn Post>,
    pub(crate) closed: CancellationToken,
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("pod", &self.pod)
            .field("responder", &self.asked.responder.name)
            .finish_non_exhaustive()
    }
}

/// The question ended during the work: it was canceled, its time was over, or a deadline was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the question ended before the work did")]
pub struct Canceled;

impl Question {
    /// The Evacuation's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Evacuation's namespace, which is the pod's.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The Evacuation's UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The name of the pod to move.
    pub fn pod(&self) -> &str {
        &self.pod
    }

    /// The requesters' entries.
    pub fn requesters(&self) -> &[Requester] {
        &self.asked.requesters
    }

    /// The requesters' names, for a log line.
    pub fn wanted_by(&self) -> String {
        self.asked.requesters.iter().map(|requester| requester.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns true when nobody wants the pod to move: a person rehearses with `kubectl evacuate test`. The
    /// answer is shown, and [`Handler::canceled`](crate::Handler::canceled) follows.
    pub fn is_rehearsal(&self) -> bool {
        self.asked.rehearsal
    }

    /// Consequence of a refusal.
    pub fn on_refusal(&self) -> RefusalPolicy {
        self.asked.on_refusal
    }

    /// Time at which the pod is evicted or deleted, whatever the answer.
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        self.asked.deadline
    }

    /// The last answer of this responder, such as the one before a restart of the app.
    pub fn previous_answer(&self) -> Option<evacuation_api::Answer> {
        self.asked.responder.answer
    }

    /// The same question with the newest requesters, policy and deadline.
    #[must_use]
    pub fn newest(&self) -> Self {
        let asked = self.news.borrow().clone();
        Self { asked, ..self.clone() }
    }

    /// Waits until the requesters, the policy or the deadline differ from this question's, and returns the
    /// newer question.
    ///
    /// # Errors
    ///
    /// [`Canceled`] when the question ended first.
    pub async fn changed(&self) -> Result<Self, Canceled> {
        let mut news = self.news.clone();
        let changed = async {
            let newer = news.wait_for(|newest| !newest.wants_as(&self.asked)).await;
            newer.is_ok()
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Canceled),
            // Nobody tells any more: the responder was shut down.
            changed = changed => if changed { Ok(self.newest()) } else { Err(Canceled) },
        }
    }

    /// Answers now, besides what the handler returns: to change a refusal under the policy `Wait`, or to
    /// accept later.
    ///
    /// The post is repeated until the answer is recorded or the question has ended. If the server finds the
    /// answer invalid, such as for a control character in its message, the answer is posted again without
    /// reason and message.
    pub async fn answer(&self, answer: Answer) -> Result<EvacuationResponseStatus, RespondError> {
        self.say(answer, &CancellationToken::new()).await
    }

    /// Answers like [`Question::answer`], until `enough` is cancelled.
    async fn say(
        &self,
        answer: Answer,
        enough: &CancellationToken,
    ) -> Result<EvacuationResponseStatus, RespondError> {
        let bare = answer.bare();
        let decorated = answer != bare;
        match self.post(answer, enough).await {
            Err(error) if decorated && error.is_invalid() => {
                let error = error_chain(&error);
                tracing::warn!("{error}; posting the answer again without reason and message");
                self.post(bare, enough).await
            }
            result => result,
        }
    }

    async fn post(
        &self,
        answer: Answer,
        enough: &CancellationToken,
    ) -> Result<EvacuationResponseStatus, RespondError> {
        let until = Until { closed: &self.closed, enough };
        let spec = answer.into_spec(&self.asked.responder.name);
        self.poster.post(spec, until).await
    }

    /// Completes when the question has ended: it was canceled, its time was over, or a deadline was reached.
    pub async fn ended(&self) {
        self.closed.cancelled().await;
    }

    /// Delays for as long as `work` takes: renews a delay of `step` after half of the granted time, and when
    /// the server lost it. Returns the result of the work; the handler then usually answers
    /// [`Answer::accept`].
    ///
    /// No renewal is under way when it returns: each post has had its reply, or its timeout of 10 s. So the
    /// answer that follows is the last one that the server records.
    ///
    /// # Errors
    ///
    /// [`Canceled`] when the question ended first; the work is dropped.
    pub async fn hold<T>(&self, step: Duration, work: impl Future<Output = T>) -> Result<T, Canceled> {
        tokio::pin!(work);
        loop {
            let enough = CancellationToken::new();
            let renewal = self.renew(step, &enough);
            tokio::pin!(renewal);
            let pause = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(Canceled),
                done = &mut work => {
                    enough.cancel();
                    renewal.await;
                    return Ok(done);
                }
                pause = &mut renewal => pause,
            };
            tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(Canceled),
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(pause) => {}
                () = self.lost() => {}
            }
        }
    }

    /// Posts a delay; returns the time until the next one.
    async fn renew(&self, step: Duration, enough: &CancellationToken) -> Duration {
        match self.say(Answer::delay(step), enough).await {
            Ok(status) => granted(&status).unwrap_or(step) / 2,
            Err(RespondError::Closed { .. }) => step,
            Err(error) => {
                // The work still counts: a refused renewal means that a bound was reached, and the platform
                // may go on before the work is done.
                tracing::warn!("the delay was not renewed: {}", error_chain(&error));
                step
            }
        }
    }

    /// Completes when the server has lost an answer that it had shown, because its store was restored from
    /// an older backup.
    pub(crate) async fn lost(&self) {
        let mut news = self.news.clone();
        let mut shown = None;
        loop {
            let answer_time = news.borrow_and_update().responder.answer_time;
            if answer_time < shown {
                return;
            }
            shown = answer_time;
            if news.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    pub(crate) async fn acknowledge(&self) -> Result<(), RespondError> {
        let spec = EvacuationResponseSpec {
            responder: Some(self.asked.responder.name.clone()),
            acknowledge_cancellation: true,
            ..EvacuationResponseSpec::default()
        };
        // Nothing but the server's word ends it: the question has ended already.
        let never = CancellationToken::new();
        let until = Until { closed: &never, enough: &never };
        self.poster.post(spec, until).await.map(drop)
    }
}

/// The time that was granted.
pub(crate) fn granted(status: &EvacuationResponseStatus) -> Option<Duration> {
    status.granted_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Mutex};

    use evacuation_api::Answer as Word;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::Value;

    use super::*;
    use crate::testing::{asked, recording};

    const INVALID: (u16, &str) = (
        422,
        r#"{"kind":"Status","status":"Failure","code":422,"reason":"Invalid",
            "details":{"causes":[{"reason":"FieldValueInvalid","field":"spec.message"}]}}"#,
    );
    const UNAVAILABLE: (u16, &str) =
        (503, r#"{"kind":"Status","status":"Failure","code":503,"reason":"ServiceUnavailable"}"#);
    const RECORDED: (u16, &str) = (201, r#"{"spec":{},"status":{}}"#);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_invalid_for_its_message_keeps_its_word() {
        let (client, sent) = recording(&[INVALID, RECORDED]);
        let answer = Answer::refuse("\u{1b}[31ma backup runs").retry_after(Duration::from_mins(1));
        asked(&client).answer(answer).await.unwrap();
        let sent = sent.lock().unwrap();
        assert_eq!(sent.len(), 2);
        let spec: EvacuationResponseSpec = serde_json::from_value(sent[1]["spec"].clone()).unwrap();
        assert_eq!((spec.answer, spec.retry_after_seconds), (Some(Word::Refuse), Some(60)));
        assert_eq!((spec.reason, spec.message), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_invalid_for_its_word_is_refused_at_once() {
        let (client, sent) = recording(&[INVALID, RECORDED]);
        let refused = asked(&client).answer(Answer::accept()).await;
        assert!(matches!(refused, Err(RespondError::Refused { .. })), "{refused:?}");
        assert_eq!(sent.lock().unwrap().len(), 1);
    }

    /// Each post takes 2 s; returns the words that were recorded at their end.
    fn slow() -> (Client, Arc<Mutex<Vec<Value>>>) {
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let record = recorded.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let record = record.clone();
            async move {
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let mut posted: Value = serde_json::from_slice(&bytes).unwrap();
                tokio::time::sleep(Duration::from_secs(2)).await;
                record.lock().unwrap().push(posted["spec"]["answer"].take());
                let recorded = Body::from(RECORDED.1.as_bytes().to_vec());
                Ok::<_, Infallible>(Response::builder().status(RECORDED.0).body(recorded).unwrap())
            }
        });
        (Client::new(service, "shop"), recorded)
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_is_under_way_is_recorded_before_the_answer_that_follows_it() {
        let (client, recorded) = slow();
        let question = asked(&client);
        let work = tokio::time::sleep(Duration::from_secs(1));
        question.hold(Duration::from_mins(1), work).await.unwrap();
        question.answer(Answer::refuse("a backup runs")).await.unwrap();
        assert_eq!(*recorded.lock().unwrap(), ["Delay", "Refuse"]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_is_done_does_not_wait_for_a_renewal_that_fails() {
        let (client, sent) = recording(&[UNAVAILABLE]);
        let begun = tokio::time::Instant::now();
        let work = tokio::time::sleep(Duration::from_mins(1));
        asked(&client).hold(Duration::from_secs(30), work).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_mins(1));
        assert!(sent.lock().unwrap().len() > 5);
    }
}
