//! Starting a question to an app, beside the workers.

use std::{error::Error, net::IpAddr, sync::Arc, time::Duration};

use evacuation_api::{Answer, Evacuation, ResponderState, ReviewAction};
use evacuation_protocol::{Delivered, NOT_ASKED, Push};
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::{
    metrics::NegotiationMetrics,
    push::{ClusterView, Course, Deliveries, Next, PostEnd, PushError, Pusher, Reply},
    uid,
};
use crate::cluster::{CallError, Cluster, EventSink, Notice, ObjectKey, ServerClock, Term, View, WorkQueue};

/// Time that an endpoint has to answer before the delivery of its question is recorded. An answer that comes
/// sooner needs no such record.
const PROMPT: Duration = Duration::from_millis(500);
/// The shortest and the longest pause after a reply that the API did not record for some seconds.
const RELAY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// Maximum length of a failure in the message of a responder, in bytes.
const MAX_PROBLEM: usize = 400;

/// Poster of the questions to apps.
pub(super) struct Asker {
    view: Arc<View>,
    clock: Arc<ServerClock>,
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
            clock: Arc::clone(&cluster.clock),
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
            let reached = asker.deliveries.reached(&key, &evacuation_uid, &question);
            let course = Course { reached, ..Course::default() };
            let (name, action) = (&question.responder, question.action);
            let time = || asker.clock.now();
            let pushed = async {
                let reply = asker.pusher.ask(&evacuation, name, action, &course, time, &*asker.view).await?;
                asker.deliveries.set_replied(&key, &evacuation_uid, &question);
                asker.relay(&key, &evacuation, &question, &reply).await
            };
            let sent = async {
                course.sent.cancelled().await;
                asker.deliveries.set_sent(&key, &evacuation_uid, &question, asker.clock.now());
                sleep(PROMPT).await;
                asker.record_reached(&key, &evacuation_uid, &question);
                std::future::pending::<()>().await;
            };
            let result = tokio::select! {
                () = term.cancelled() => return,
                () = overtaken.cancelled() => return,
                () = sent => return,
                result = pushed => result,
            };
            let end = match &result {
                Ok(answer) => {
                    debug!(evacuation = %key, responder = question.responder, ?answer, "an app answered");
                    asker.metrics.pushes.get_or_create(&[("outcome", "answered")]).inc();
                    PostEnd::Done
                }
                Err(error) => {
                    asker.note_failure(&key, &evacuation_uid, &question, &course, error);
                    asker.push_failed(&key, &evacuation, &question, error)
                }
            };
            asker.deliveries.over(&key, &evacuation_uid, &question, end, Instant::now());
            // The worker asks when to post again, and sets its clock by that. A reply that was in hand no
            // longer holds up the end of the time to answer, or a newer question.
            asker.queue.add(key);
        });
        None
    }

    /// Relays a reply until it is recorded, or can no longer be. The endpoint has answered: it is not asked
    /// again, because it can be gone by then.
    async fn relay(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        question: &Push,
        reply: &Reply,
    ) -> Result<Option<Answer>, PushError> {
        let mut failures = 0;
        loop {
            match self.pusher.relay(evacuation, &question.responder, reply, &*self.view).await {
                Err(PushError::Call(error)) => self.note_unrecorded(key, evacuation, question, &error),
                end => return end,
            }
            failures += 1;
            sleep(machinery_watch::backoff(RELAY_PAUSE.0, RELAY_PAUSE.1, failures)).await;
        }
    }

    /// Tells of a reply that the API did not record.
    fn note_unrecorded(&self, key: &ObjectKey, evacuation: &Evacuation, question: &Push, error: &CallError) {
        self.metrics.pushes.get_or_create(&[("outcome", "failed")]).inc();
        let said = format!("answered, and the answer is not recorded yet: {}", explain(error));
        let problem = plain(&format!("it {said}"));
        self.deliveries.failed(key, uid(evacuation), question, &problem, Instant::now());
        self.queue.add(key.clone());
        let note = format!("responder {} {said}", question.responder);
        info!(evacuation = %key, note, "a reply was not recorded");
        self.events.send(evacuation, Notice::warning("PushFailed", note));
    }

    /// Returns the last question about an Evacuation that this process delivered.
    pub(super) fn asked(&self, key: &ObjectKey, evacuation: &Evacuation) -> Option<Delivered> {
        self.deliveries.asked(key, uid(evacuation))
    }

    /// Notes that a question reached its endpoint by now, so that a worker records the first one in the
    /// status.
    fn record_reached(&self, key: &ObjectKey, evacuation_uid: &str, question: &Push) {
        if self.deliveries.set_reached(key, evacuation_uid, question, self.clock.now()) {
            self.queue.add(key.clone());
        }
    }

    /// Notes whether a question that failed reached its endpoint, and why it failed.
    fn note_failure(
        &self,
        key: &ObjectKey,
        evacuation_uid: &str,
        question: &Push,
        course: &Course,
        error: &PushError,
    ) {
        let reached = error.has_reached(course);
        if reached {
            self.record_reached(key, evacuation_uid, question);
        } else if error.is_endpoints() {
            self.deliveries.set_unreached(key, evacuation_uid, question, self.clock.now());
        }
        if let Some(problem) = problem(error, course) {
            self.deliveries.failed(key, evacuation_uid, question, &problem, Instant::now());
        }
    }

    /// Tells of a question that failed.
    fn push_failed(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        question: &Push,
        error: &PushError,
    ) -> PostEnd {
        // The server no longer waits for this answer: another came first, or the Evacuation went on.
        let too_late = match error {
            PushError::PodGone(_) | PushError::Overtaken(_) => true,
            PushError::Relay(call) => matches!(call.code(), 404 | 409),
            _ => false,
        };
        let outcome = if too_late { "too_late" } else { "failed" };
        self.metrics.pushes.get_or_create(&[("outcome", outcome)]).inc();
        if too_late {
            debug!(evacuation = %key, responder = question.responder, error = error as &dyn Error, "a question is moot");
            return PostEnd::Done;
        }
        let verb = match question.action {
            ReviewAction::Ask => "asked",
            ReviewAction::Remind => "reminded",
            ReviewAction::Cancel => "told of the cancellation",
        };
        let responder = &question.responder;
        let note = if error.is_bad_answer() {
            format!("responder {responder} was {verb}, and its reply does not count: {}", explain(error))
        } else {
            format!("responder {responder} could not be {verb}: {}", explain(error))
        };
        let note = match question.action {
            ReviewAction::Cancel => note,
            ReviewAction::Ask | ReviewAction::Remind => {
                format!("{note}; the controller asks again until the time to answer is over")
            }
        };
        info!(evacuation = %key, note, "a question failed");
        self.events.send(evacuation, Notice::warning("PushFailed", note));
        PostEnd::Failed
    }
}

impl ClusterView for View {
    fn waits_for(&self, evacuation: &Evacuation, responder: &str, action: ReviewAction) -> bool {
        let Some(newest) = self.index().evacuation(&ObjectKey::of(evacuation)) else { return false };
        if newest.metadata.uid != evacuation.metadata.uid {
            return false;
        }
        let responders = newest.status.iter().flat_map(|status| status.responders.iter().flatten());
        let entry = responders.into_iter().find(|entry| entry.name == responder);
        entry.is_some_and(|entry| match action {
            ReviewAction::Ask | ReviewAction::Remind => entry.state == ResponderState::Active,
            ReviewAction::Cancel => !entry.cancellation_acknowledged,
        })
    }

    fn is_node(&self, address: IpAddr) -> bool {
        self.index().is_node_address(address)
    }

    fn has_pod(&self, namespace: &str, uid: &str, address: IpAddr) -> bool {
        let index = self.index();
        !index.is_node_address(address) && index.has_pod(namespace, uid, address)
    }
}

/// Returns the failure of a question for the message of its responder. `None` when it is not the endpoint's.
fn problem(error: &PushError, course: &Course) -> Option<String> {
    if matches!(error, PushError::Relay(call) if !matches!(call.code(), 400 | 422)) {
        return None;
    }
    let start = if !error.is_endpoints() {
        return None;
    } else if error.is_bad_answer() {
        "its reply does not count: "
    } else if error.has_reached(course) {
        ""
    } else {
        NOT_ASKED
    };
    Some(plain(&format!("{start}{}", explain(error))))
}

/// Returns a failure in words as one line of bounded length, without control characters.
fn plain(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_PROBLEM);
    text.get(..end).unwrap_or(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// An error and its causes in one line. The API's words are quoted once, without the names of types.
fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            let said = if status.message.is_empty() { &status.reason } else { &status.message };
            text.push_str(said);
            break;
        }
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::CallError;

    #[test]
    fn a_responder_is_told_of_its_own_failures_alone_and_without_control_characters() {
        let relay = |code| {
            let status = kube::core::Status::failure("no \u{9b}2J\n", "x").with_code(code);
            let action = "relay".to_owned();
            PushError::Relay(CallError::Api { action, source: kube::Error::Api(status.boxed()) })
        };
        let course = Course::default();
        let expected = "its reply does not count: the answer was not recorded: could not relay: no  2J ";
        assert_eq!(problem(&relay(422), &course).as_deref(), Some(expected));
        for code in [403, 404, 409, 429, 500, 503] {
            assert_eq!(problem(&relay(code), &course), None, "{code}");
        }
        let unreachable = problem(&PushError::NoAddress("p".to_owned()), &course);
        assert_eq!(unreachable.as_deref(), Some("it could not be asked: pod p has no address"));
    }

    #[test]
    fn what_the_api_said_to_an_answer_is_quoted_once() {
        let status = kube::core::Status::failure("delaySeconds: 0 is not between 1 and 9", "Invalid");
        let source = kube::Error::Api(status.with_code(422).boxed());
        let action = "relay the answer of self to evacuation ns/e".to_owned();
        let error = PushError::Relay(CallError::Api { action, source });
        assert_eq!(
            explain(&error),
            "the answer was not recorded: could not relay the answer of self to evacuation ns/e: \
             delaySeconds: 0 is not between 1 and 9"
        );
    }
}
