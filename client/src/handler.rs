//! The trait that an app implements.

use async_trait::async_trait;

use crate::{Answer, Question};

/// Answers questions. A function from [`Question`] to a future of [`Answer`] is a handler.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Called when the platform asks, and again when the last answer says so.
    ///
    /// A handler that is silent past the responder's timeout is passed over: answer `Delay` early, or use
    /// [`Question::hold`]. The call is dropped when the question ends. A call that panics is repeated, after
    /// a pause that grows from 0.1 s to 5 s.
    async fn asked(&self, question: Question) -> Answer;

    /// Called when the evacuation was canceled after the app was asked: the app can take up its work again.
    ///
    /// The cancellation is acknowledged when the call returns. A call that panics is repeated after a pause.
    async fn canceled(&self, question: Question) {
        tracing::info!(evacuation = %question.name(), "the evacuation was canceled");
    }
}

#[async_trait]
impl<F, R> Handler for F
where
    F: Fn(Question) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    async fn asked(&self, question: Question) -> Answer {
        self(question).await
    }
}
