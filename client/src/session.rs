//! One responder's part in one Evacuation, from the first question to its end.

use std::sync::Arc;

use evacuation_api::{DeadlineAction, ResponderState, ResponderStatus};
use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Handler, Question, RespondError, post::Poster, question::granted, source::Source};

/// A question that is being worked on.
pub(crate) struct Session {
    question: Question,
    task: JoinHandle<()>,
    state: ResponderState,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.question.closed.cancel();
        self.task.abort();
    }
}

/// The question that an object asks of a responder.
pub(crate) fn question<S: Source>(client: &Client, object: &S, responder: &ResponderStatus) -> Question {
    let policy = object
        .status()
        .and_then(|status| status.policy.clone())
        .unwrap_or_default();
    let deadline = policy
        .deadlines
        .iter()
        .find(|d| d.action != DeadlineAction::GiveUp)
        .map(|d| d.time.0);
    Question {
        namespace: object.meta().namespace.clone().unwrap_or_default(),
        name: object.meta().name.clone().unwrap_or_default(),
        uid: object.uid().to_owned(),
        spec: object.spec().clone(),
        on_refusal: policy.on_refusal,
        responder: responder.clone(),
        deadline,
        poster: Arc::new(Poster::new(client.clone(), object)),
        closed: CancellationToken::new(),
    }
}

impl Session {
    /// Starts to work on a question.
    pub(crate) fn start(question: Question, handler: Arc<dyn Handler>) -> Self {
        let state = question.responder.state;
        let task = tokio::spawn(work(question.clone(), handler));
        Self {
            question,
            task,
            state,
        }
    }

    /// Whether this session works on that very question: a responder that is asked anew gets a new one.
    pub(crate) fn is_of(&self, responder: &ResponderStatus) -> bool {
        self.question.responder.active_time == responder.active_time
    }

    /// Follows what the platform made of the answer.
    pub(crate) fn follow(&mut self, state: ResponderState) {
        if state != ResponderState::Active && self.state == ResponderState::Active {
            self.question.closed.cancel();
        }
        self.state = state;
    }
}

/// Calls the handler, posts what it answers, and calls it again where the answer says so.
async fn work(question: Question, handler: Arc<dyn Handler>) {
    loop {
        let asked = handler.asked(question.clone());
        let answer = tokio::select! {
            () = question.closed.cancelled() => return,
            answer = asked => answer,
        };
        let again = match question.answer(answer.clone()).await {
            Ok(status) => answer.call_again_after(granted(&status)),
            Err(RespondError::Closed { .. }) => return,
            Err(error) => {
                tracing::warn!(evacuation = %question.name, error = &error as &dyn std::error::Error, "the answer was refused");
                None
            }
        };
        let Some(pause) = again else { return };
        tokio::select! {
            () = question.closed.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
