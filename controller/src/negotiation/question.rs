//! Starting a question to an app, beside the workers.

use std::{error::Error, sync::Arc};

use evacuation_api::{Evacuation, ReviewAction};
use evacuation_protocol::Push;
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    metrics::NegotiationMetrics,
    push::{Deliveries, Next, PushError, Pusher},
    uid,
};
use crate::cluster::{Cluster, EventSink, Notice, ObjectKey, Term, View, WorkQueue};

/// Poster of the questions to apps.
pub(super) struct Asker {
    view: Arc<View>,
    term: Arc<Term>,
    events: EventSink,
    deliveries: Deliveries,
    pusher: Pusher,
    metrics: NegotiationMetrics,
    queue: Arc<WorkQueue<ObjectKey>>,
}

impl Asker {
    /// Returns an asker that queues an Evacuation when its question must be posted again.
    pub(super) fn new(
        cluster: &Cluster,
        pusher: Pusher,
        metrics: NegotiationMetrics,
        queue: Arc<WorkQueue<ObjectKey>>,
    ) -> Self {
        Self {
            view: Arc::clone(&cluster.view),
            term: Arc::clone(&cluster.term),
            events: cluster.events.clone(),
            deliveries: Deliveries::default(),
            pusher,
            metrics,
            queue,
        }
    }

    /// Forgets the questions of an Evacuation that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.deliveries.forget(key);
    }

    /// Forgets every question.
    pub(super) fn clear(&self) {
        self.deliveries.clear();
    }

    /// Posts a question unless it was delivered or is being posted. Returns when to post it again.
    pub(super) fn start(
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
        let (asker, key, evacuation) = (Arc::clone(self), key.clone(), Arc::clone(evacuation));
        let term = self.term.token();
        tokio::spawn(async move {
            let is_node = |address| asker.view.index().is_node_address(address);
            let pushed = asker.pusher.push(&evacuation, &question.responder, question.action, is_node);
            let result = tokio::select! {
                () = term.cancelled() => return,
                () = overtaken.cancelled() => return,
                result = pushed => result,
            };
            let delivered = match result {
                Ok(answer) => {
                    debug!(evacuation = %key, responder = question.responder, ?answer, "an app answered");
                    asker.metrics.pushes.get_or_create(&[("outcome", "answered")]).inc();
                    true
                }
                Err(error) => asker.push_failed(&key, &evacuation, &question, &error),
            };
            let again = asker.deliveries.over(&key, &evacuation_uid, &question, delivered, Instant::now());
            if again.is_some() {
                // The worker asks when to post again, and sets its clock by that.
                asker.queue.add(key);
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
        self.events.send(evacuation, Notice::warning("PushFailed", note));
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
