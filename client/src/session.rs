//! One responder's work on one Evacuation, from the first question to its end.

use std::sync::Arc;

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

    /// Returns whether this session is of the same question, which has not ended. A responder that is asked a
    /// second time gets a new session, as does one whose ended question is open again: the server's store was
    /// restored from an older backup.
    pub(crate) fn is_of(&self, responder: &ResponderStatus) -> bool {
        self.active_time == responder.active_time && self.state == ResponderState::Active
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
        let again = async {
            match answer {
                Ok(answer) => {
                    pauses = Retry::default();
                    keep(&question, answer).await
                }
                Err(panic) => {
                    let evacuation = &question.name;
                    tracing::error!(
                        "evacuation {evacuation}: the question was not answered, asking again: {panic}"
                    );
                    tokio::time::sleep(pauses.next().unwrap_or_default()).await;
                    true
                }
            }
        };
        tokio::select! {
            () = question.closed.cancelled() => return,
            again = again => if !again { return },
        }
    }
}

/// Posts an answer, and again whenever the server lost it. Returns true at the time of the handler's next
/// call, false when the server refused the answer.
async fn keep(question: &Question, answer: Answer) -> bool {
    loop {
        let granted = match question.answer(answer.clone()).await {
            Ok(status) => granted(&status),
            Err(RespondError::Closed { .. }) => return false,
            Err(error) => {
                tracing::warn!("{}", error_chain(&error));
                return false;
            }
        };
        let next_call = async {
            match answer.call_again_after(granted) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = next_call => return true,
            () = question.lost() => {
                tracing::warn!("evacuation {}: the server lost the answer, posting it again", question.name);
            }
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
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

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
        assert_eq!(posted(&sent, 1).await, ["Accept"]);
        session.closed.cancel();
        (&mut session.task).await.unwrap();
    }

    /// Waits until that many answers were posted, and returns their words.
    async fn posted(sent: &Mutex<Vec<serde_json::Value>>, count: usize) -> Vec<String> {
        let all = async {
            while sent.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), all).await.expect("they are posted");
        let sent = sent.lock().unwrap();
        sent.iter().map(|body| body["spec"]["answer"].as_str().unwrap().to_owned()).collect()
    }

    /// [`asking`] after an answer was recorded.
    fn answered(word: Word) -> Evacuation {
        let mut answered = asking();
        let responder = &mut answered.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
        responder.answer = Some(word);
        responder.answer_time =
            Some("2026-11-20T22:00:01Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap().into());
        answered
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_the_server_lost_is_posted_again() {
        let (client, sent) = recording(&[RECORDED]);
        let asked = asking();
        let handler = Arc::new(|_| async { Answer::delay(Duration::from_mins(10)) });
        let mut session = Session::start(&client, &asked, responder(&asked), handler);
        posted(&sent, 1).await;
        let delayed = answered(Word::Delay);
        session.follow(&delayed, responder(&delayed));
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(sent.lock().unwrap().len(), 1, "once is enough");
        session.follow(&asked, responder(&asked));
        assert_eq!(posted(&sent, 2).await, ["Delay", "Delay"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_the_server_lost_is_renewed_while_the_work_lasts() {
        let (client, sent) = recording(&[RECORDED]);
        let asked = asking();
        let handler = Arc::new(|question: Question| async move {
            let work = std::future::pending::<()>();
            question.hold(Duration::from_hours(1), work).await.ok();
            Answer::accept()
        });
        let mut session = Session::start(&client, &asked, responder(&asked), handler);
        posted(&sent, 1).await;
        let delayed = answered(Word::Delay);
        session.follow(&delayed, responder(&delayed));
        tokio::time::sleep(Duration::from_secs(1)).await;
        session.follow(&asked, responder(&asked));
        // Half of the granted time is 15 s.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sent.lock().unwrap().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_ended_and_is_open_again_is_another_question() {
        let asked = asking();
        let mut session = start(&asked, |_| async { Answer::accept() });
        assert!(session.is_of(responder(&asked)));
        let mut ended = answered(Word::Accept);
        ended.status.as_mut().unwrap().responders.as_mut().unwrap()[0].state = ResponderState::Completed;
        session.follow(&ended, responder(&ended));
        assert!(!session.is_of(responder(&asked)));
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
