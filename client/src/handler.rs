//! What an app implements.

use async_trait::async_trait;

use crate::{Answer, Question};

/// Answers questions. A function from [`Question`] to a future of [`Answer`] is a handler.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Called when the platform asks, and again where the last answer said so. It may take its time, but silence
    /// past the responder's timeout lets the platform go on: answer `Delay` early, or use [`Question::hold`].
    /// When the question ends meanwhile the call is dropped. When it panics it is made again, after a pause that grows
    /// from 0.1 s to 5 s.
    async fn asked(&self, question: Question) -> Answer;

    /// Called when the evacuation was canceled after the app was asked: it may take up work again. The
    /// cancellation is acknowledged when this returns. When it panics it is called again, after a pause.
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
