//! Starting a question to an app, beside the workers.

use std::{error::Error, sync::Arc};

use evacuation_api::{Evacuation, ReviewAction};
use evacuation_protocol::Push;
use tokio::time::Instant;
use tracing::{debug, info};

use super::uid;
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    events::Notice,
    push::{Next, PushError},
};

impl Controller {
    /// Posts a question unless it was delivered or is being posted. Returns when to post it again.
    pub(super) fn start_push(
        self: &Arc<Self>,
        key: &ObjectKey,
        evacuation: &Arc<Evacuation>,
        question: Push,
    ) -> Option<Instant> {
        let evacuation_uid = uid(evacuation).to_owned();
        let overtaken = match self.deliveries.next(key, &evacuation_uid, &question, Instant::now()) {
            Next::Post(overtaken) => overtaken,
            Next::At(time) => return Some(time),
            Next::Nothing => return None,
        };
        let (controller, key, evacuation) = (Arc::clone(self), key.clone(), Arc::clone(evacuation));
        let term = self.term();
        tokio::spawn(async move {
            let is_node = |address| lock(&controller.index).is_node_address(address);
            let pushed = controller.pusher.push(&evacuation, &question.responder, question.action, is_node);
            let result = tokio::select! {
                () = term.cancelled() => return,
                () = overtaken.cancelled() => return,
                result = pushed => result,
            };
            let delivered = match result {
                Ok(answer) => {
                    debug!(evacuation = %key, responder = question.responder, ?answer, "an app answered");
                    controller.metrics.pushes.get_or_create(&[("outcome", "answered")]).inc();
                    true
                }
                Err(error) => controller.push_failed(&key, &evacuation, &question, &error),
            };
            let again =
                controller.deliveries.over(&key, &evacuation_uid, &question, delivered, Instant::now());
            if again.is_some() {
                // The worker asks when to post again, and sets its clock by that.
                controller.queue.add(key);
            }
        });
        None
    }

    /// Tells of a question that failed. True when it need not be posted again.
    fn push_failed(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        question: &Push,
        error: &PushError,
    ) -> bool {
        // The server no longer waits for this answer: another came first, or the Evacuation went on.
        let too_late = matches!(error, PushError::Call(call) if matches!(call.code(), 404 | 409));
        let outcome = if too_late { "too_late" } else { "failed" };
        self.metrics.pushes.get_or_create(&[("outcome", outcome)]).inc();
        if too_late || matches!(error, PushError::PodGone(_)) {
            debug!(evacuation = %key, responder = question.responder, error = error as &dyn Error, "a question is moot");
            return true;
        }
        let verb = match question.action {
            ReviewAction::Ask => "asked",
            ReviewAction::Remind => "reminded",
            ReviewAction::Cancel => "told of the cancellation",
        };
        let note = format!("responder {} could not be {verb}: {}", question.responder, chain(error));
        info!(evacuation = %key, note, "a question failed");
        self.notify(evacuation, Notice::warning("PushFailed", note));
        false
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
