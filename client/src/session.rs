//! One responder's work on one Evacuation, from the first question to its end.

use std::{sync::Arc, time::Duration};

use evacuation_api::{ResponderState, ResponderStatus, Timestamp};
use kube::Client;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, Handler, Question, RespondError, asked::Asked, backoff::Retry, error_chain, panicked::caught,
    post::Poster, question::granted, source::Source,
};

/// A question under way.
pub(crate) struct Session {
    active_time: Option<Timestamp>,
    news: watch::Sender<Asked>,
    closed: CancellationToken,
    task: JoinHandle<()>,
    state: ResponderState,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.closed.cancel();
        self.task.abort();
    }
}

/// The question of a responder in an object, and the sender of its changes.
pub(crate) fn question<S: Source>(
    client: &Client,
    object: &S,
    responder: &ResponderStatus,
) -> (Question, watch::Sender<Asked>) {
    let asked = Asked::of(object, responder);
    let (sender, news) = watch::channel(asked.clone());
    let question = Question {
        namespace: object.meta().namespace.clone().unwrap_or_default(),
        name: object.meta().name.clone().unwrap_or_default(),
        uid: object.uid().to_owned(),
        pod: object.spec().target.pod.name.clone(),
        asked,
        news,
        poster: Arc::new(Poster::new(client.clone(), object)),
        closed: CancellationToken::new(),
    };
    (question, sender)
}

impl Session {
    /// Starts to answer the question of a responder in an object.
    pub(crate) fn start<S: Source>(
        client: &Client,
        object: &S,
        responder: &ResponderStatus,
        handler: Arc<dyn Handler>,
    ) -> Self {
        let (question, news) = question(client, object, responder);
        Self {
            active_time: responder.active_time,
            news,
            closed: question.closed.clone(),
            task: tokio::spawn(work(question, handler)),
            state: responder.state,
        }
    }

    /// Returns whether this session is of the same question. A responder that is asked a second time gets a
    /// new session.
    pub(crate) fn is_of(&self, responder: &ResponderStatus) -> bool {
        self.active_time == responder.active_time
    }

    /// Takes in a newer state of the object.
    pub(crate) fn follow<S: Source>(&mut self, object: &S, responder: &ResponderStatus) {
        let asked = Asked::of(object, responder);
        self.news.send_if_modified(|known| {
            let newer = *known != asked;
            *known = asked;
            newer
        });
        if responder.state != ResponderState::Active && self.state == ResponderState::Active {
            self.closed.cancel();
        }
        self.state = responder.state;
    }
}

/// Calls the handler and posts its answer; calls it again when the answer says so or the handler panicked.
async fn work(question: Question, handler: Arc<dyn Handler>) {
    let mut pauses = Retry::default();
    loop {
        let asked = caught(async { handler.asked(question.newest()).await });
        let answer = tokio::select! {
            () = question.closed.cancelled() => return,
            answer = asked => answer,
        };
        let again = match answer {
            Ok(answer) => {
                pauses = Retry::default();
                post(&question, answer).await
            }
            Err(panic) => {
                let evacuation = &question.name;
                tracing::error!(
                    "evacuation {evacuation}: the question was not answered, asking again: {panic}"
                );
                pauses.next()
            }
        };
        let Some(pause) = again else { return };
        tokio::select! {
            () = question.closed.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Posts an answer; returns the time until the next call of the handler, if there is one.
async fn post(question: &Question, answer: Answer) -> Option<Duration> {
    match question.answer(answer.clone()).await {
        Ok(status) => answer.call_again_after(granted(&status)),
        Err(RespondError::Closed { .. }) => None,
        Err(error) => {
            tracing::warn!("{}", error_chain(&error));
            None
        }
    }
}

/// Calls the handler's `canceled` until it returns without a panic or the object is gone; then acknowledges
/// the cancellation.
pub(crate) async fn say_canceled(question: Question, handler: Arc<dyn Handler>) {
    let mut pauses = Retry::default();
    while let Err(panic) = caught(async { handler.canceled(question.clone()).await }).await {
        let evacuation = &question.name;
        tracing::error!("evacuation {evacuation}: the cancellation was not handled, trying again: {panic}");
        let Some(pause) = pauses.next() else { return };
        tokio::select! {
            () = question.closed.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
    if let Err(error) = question.acknowledge().await {
        tracing::warn!("the cancellation was not acknowledged: {}", error_chain(&error));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use evacuation_api::{Answer as Word, Evacuation, RefusalPolicy, SELF_RESPONDER};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        Canceled,
        testing::{asked, asking, recording, replying},
    };

    const RECORDED: (u16, &str) = (201, r#"{"spec":{},"status":{"grantedSeconds":30}}"#);

    fn start(evacuation: &Evacuation, handler: impl Handler) -> Session {
        let client = replying(&[RECORDED]);
        Session::start(&client, evacuation, responder(evacuation), Arc::new(handler))
    }

    async fn next<T>(channel: &mut mpsc::UnboundedReceiver<T>) -> T {
        let next = tokio::time::timeout(Duration::from_hours(1), channel.recv()).await;
        next.expect("it is told").unwrap()
    }

    fn responder(evacuation: &Evacuation) -> &ResponderStatus {
        evacuation.responder(SELF_RESPONDER).unwrap()
    }

    /// The same after the responder delayed, and another joined who deletes the pod at a deadline.
    fn hardened() -> Evacuation {
        let mut evacuation = serde_json::to_value(asking()).unwrap();
        evacuation["spec"]["requesters"] = serde_json::json!([{"name": "acme.io/a"}, {"name": "acme.io/b"}]);
        evacuation["status"]["policy"] = serde_json::json!({
            "onRefusal": "Override",
            "deadlines": [{"requester": "acme.io/b", "time": "2026-11-20T23:00:00Z", "action": "Delete"}],
        });
        evacuation["status"]["responders"][0]["answer"] = "Delay".into();
        serde_json::from_value(evacuation).unwrap()
    }

    fn assert_hardened(question: &Question) {
        assert_eq!(question.wanted_by(), "acme.io/a, acme.io/b");
        assert_eq!(question.on_refusal(), RefusalPolicy::Override);
        let deadline = question.deadline().map(|time| time.to_rfc3339());
        assert_eq!(deadline.as_deref(), Some("2026-11-20T23:00:00+00:00"));
        assert_eq!(question.previous_answer(), Some(Word::Delay));
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_is_called_again_learns_what_is_wanted_by_then() {
        let (asked, mut questions) = mpsc::unbounded_channel();
        let mut session = start(&asking(), move |question: Question| {
            asked.send(question).unwrap();
            async { Answer::delay(Duration::from_secs(30)).ask_again() }
        });
        let first = next(&mut questions).await;
        assert_eq!((first.deadline(), first.previous_answer()), (None, None));
        let newer = hardened();
        session.follow(&newer, responder(&newer));
        assert_hardened(&next(&mut questions).await);
        // The first question still says what it said, and knows the newest.
        assert_eq!(first.deadline(), None);
        assert_hardened(&first.newest());
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_at_work_is_told_what_changes_but_not_of_its_own_answer() {
        let (told, mut changes) = mpsc::unbounded_channel();
        let mut session = start(&asking(), move |question: Question| {
            let told = told.clone();
            async move {
                told.send(question.changed().await).unwrap();
                std::future::pending().await
            }
        });
        let mut answered = asking();
        let status = answered.status.as_mut().unwrap();
        status.responders.as_mut().unwrap()[0].answer = Some(Word::Refuse);
        session.follow(&answered, responder(&answered));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(changes.is_empty());
        let newer = hardened();
        session.follow(&newer, responder(&newer));
        assert_hardened(&next(&mut changes).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_has_ended_does_not_change() {
        let (asked, mut questions) = mpsc::unbounded_channel();
        let session = start(&asking(), move |question: Question| {
            asked.send(question).unwrap();
            std::future::pending()
        });
        let question = next(&mut questions).await;
        drop(session);
        assert_eq!(question.changed().await.unwrap_err(), Canceled);
    }

    /// Panics when it is first called, of each kind of call.
    #[derive(Default)]
    struct Clumsy {
        asked: AtomicUsize,
        canceled: AtomicUsize,
    }

    #[async_trait]
    impl Handler for Clumsy {
        async fn asked(&self, _: Question) -> Answer {
            assert!(self.asked.fetch_add(1, Ordering::Relaxed) > 0, "not ready");
            Answer::accept()
        }

        async fn canceled(&self, _: Question) {
            assert!(self.canceled.fetch_add(1, Ordering::Relaxed) > 0, "not ready");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_panics_is_asked_again() {
        let (client, sent) = recording(&[RECORDED]);
        let evacuation = asking();
        let handler = Arc::new(Clumsy::default());
        let mut session = Session::start(&client, &evacuation, responder(&evacuation), handler);
        let ended = tokio::time::timeout(Duration::from_mins(1), &mut session.task).await;
        ended.unwrap().unwrap();
        assert_eq!(sent.lock().unwrap()[0]["spec"]["answer"], "Accept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancellation_that_made_the_handler_panic_is_told_again_before_it_is_acknowledged() {
        let (client, sent) = recording(&[RECORDED]);
        let handler = Arc::new(Clumsy::default());
        say_canceled(asked(&client), handler.clone()).await;
        assert_eq!(handler.canceled.load(Ordering::Relaxed), 2);
        let sent = sent.lock().unwrap();
        assert_eq!(sent[0]["spec"]["acknowledgeCancellation"], true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancellation_is_told_until_nobody_waits_for_it() {
        struct Broken;
        #[async_trait]
        impl Handler for Broken {
            async fn asked(&self, _: Question) -> Answer {
                Answer::accept()
            }
            async fn canceled(&self, _: Question) {
                panic!("broken")
            }
        }
        let (client, sent) = recording(&[RECORDED]);
        let question = asked(&client);
        let closed = question.closed.clone();
        let gone = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            closed.cancel();
        };
        tokio::join!(say_canceled(question, Arc::new(Broken)), gone);
        assert!(sent.lock().unwrap().is_empty());
    }
}
