//! Delivered questions, and the times at which the others are posted again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evacuation_api::ReviewAction;
use evacuation_protocol::{Delivered, Push};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::ObjectKey;

/// The shortest and the longest pause before a question is posted again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// Shortest time between two failures that are told: an endpoint that fails in other words each time makes no
/// more writes than this.
const TOLD_AGAIN: Duration = Duration::from_mins(1);

/// The questions of every Evacuation, at most one a responder: a newer one takes the place of an older.
#[derive(Debug, Default)]
pub(crate) struct Deliveries(Mutex<HashMap<ObjectKey, HashMap<String, Delivery>>>);

#[derive(Debug)]
struct Delivery {
    /// The UID of the Evacuation.
    uid: String,
    question: Push,
    failures: u32,
    state: State,
    /// True when the endpoint had the first question, or could not get it by its own fault.
    asked: bool,
    /// A failure in words, and the time of it.
    problem: Option<(String, Instant)>,
    /// Ends the posting when the question is overtaken.
    overtaken: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Posting,
    Delivered,
    Waiting(Instant),
}

/// Next step for a question that is due.
#[derive(Debug)]
pub(crate) enum Next {
    /// Post it, unless the token says that it was overtaken.
    Post(CancellationToken),
    /// Post it then.
    At(Instant),
    /// It was delivered, or is being posted.
    Nothing,
}

impl Deliveries {
    /// Next step for a question that is due. On [`Next::Post`] the caller posts it and calls
    /// [`Deliveries::over`].
    pub(crate) fn next(&self, key: &ObjectKey, uid: &str, question: &Push, now: Instant) -> Next {
        let mut all = self.lock();
        let responders = all.entry(key.clone()).or_default();
        match responders.get_mut(&question.responder) {
            Some(known) if known.uid == uid && known.question == *question => match known.state {
                State::Posting | State::Delivered => Next::Nothing,
                State::Waiting(time) if now < time => Next::At(time),
                State::Waiting(_) => {
                    known.state = State::Posting;
                    Next::Post(known.overtaken.clone())
                }
            },
            known => {
                if let Some(old) = known {
                    old.overtaken.cancel();
                }
                let overtaken = CancellationToken::new();
                let delivery = Delivery {
                    uid: uid.to_owned(),
                    question: question.clone(),
                    failures: 0,
                    state: State::Posting,
                    asked: false,
                    problem: None,
                    overtaken: overtaken.clone(),
                };
                responders.insert(question.responder.clone(), delivery);
                Next::Post(overtaken)
            }
        }
    }

    /// Records that the endpoint had a question, or could not get it by its own fault. True when that is
    /// news.
    pub(crate) fn set_asked(&self, key: &ObjectKey, uid: &str, question: &Push) -> bool {
        let mut all = self.lock();
        let delivery = all.get_mut(key).and_then(|responders| responders.get_mut(&question.responder));
        delivery.is_some_and(|delivery| {
            delivery.uid == uid
                && delivery.question == *question
                && !std::mem::replace(&mut delivery.asked, true)
        })
    }

    /// Records why the question failed that is under way: the first time, and then once in [`TOLD_AGAIN`].
    pub(crate) fn failed(&self, key: &ObjectKey, uid: &str, question: &Push, problem: &str, now: Instant) {
        let mut all = self.lock();
        let delivery = all.get_mut(key).and_then(|responders| responders.get_mut(&question.responder));
        if let Some(delivery) = delivery.filter(|known| known.uid == uid && known.question == *question) {
            let is_due = |(_, told): &(String, Instant)| now.saturating_duration_since(*told) >= TOLD_AGAIN;
            if delivery.problem.as_ref().is_none_or(is_due) {
                delivery.problem = Some((problem.to_owned(), now));
            }
        }
    }

    /// The responder of an Evacuation whose first question this process delivered.
    pub(crate) fn asked(&self, key: &ObjectKey, uid: &str) -> Option<Delivered> {
        let all = self.lock();
        let mut responders = all.get(key)?.values();
        let asked =
            |known: &&Delivery| known.uid == uid && known.asked && known.question.action == ReviewAction::Ask;
        // Only one responder is active at a time, and those before it have answered or are passed over.
        responders.by_ref().filter(asked).max_by_key(|known| known.question.due).map(|known| Delivered {
            responder: known.question.responder.clone(),
            problem: known.problem.as_ref().map(|(problem, _)| problem.clone()),
        })
    }

    /// Takes in how the posting of a question went. Returns when to post it again.
    pub(crate) fn over(
        &self,
        key: &ObjectKey,
        uid: &str,
        question: &Push,
        delivered: bool,
        now: Instant,
    ) -> Option<Instant> {
        let mut all = self.lock();
        let delivery = all.get_mut(key)?.get_mut(&question.responder)?;
        if delivery.uid != uid || delivery.question != *question {
            return None;
        }
        if delivered {
            delivery.state = State::Delivered;
            return None;
        }
        delivery.failures += 1;
        let again = now + machinery_watch::backoff(PAUSE.0, PAUSE.1, delivery.failures);
        delivery.state = State::Waiting(again);
        Some(again)
    }

    /// Forgets the questions of an Evacuation that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        for delivery in self.lock().remove(key).into_iter().flat_map(HashMap::into_values) {
            delivery.overtaken.cancel();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for delivery in self.lock().drain().flat_map(|(_, responders)| responders.into_values()) {
            delivery.overtaken.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, HashMap<String, Delivery>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn question(action: ReviewAction, due: i64) -> Push {
        Push { responder: "self".into(), action, due: DateTime::from_timestamp(due, 0).unwrap() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_posted_once_when_it_is_delivered() {
        let (deliveries, key, now) = (Deliveries::default(), ObjectKey::new("ns", "a"), Instant::now());
        let ask = question(ReviewAction::Ask, 1);
        assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Post(_)));
        assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Nothing), "it is being posted");
        assert_eq!(deliveries.over(&key, "e1", &ask, true, now), None);
        assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Nothing), "it was delivered");
        assert!(
            matches!(deliveries.next(&key, "e2", &ask, now), Next::Post(_)),
            "another Evacuation of that name"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn rule_9_a_responder_was_asked_when_its_own_first_question_was_delivered() {
        let (deliveries, key, now) = (Deliveries::default(), ObjectKey::new("ns", "a"), Instant::now());
        let first = question(ReviewAction::Ask, 1);
        let second = Push { responder: "a.b/c".to_owned(), ..question(ReviewAction::Ask, 9) };
        assert!(!deliveries.set_asked(&key, "e1", &first), "it was never posted");
        deliveries.next(&key, "e1", &first, now);
        assert_eq!(deliveries.asked(&key, "e1"), None, "it is on its way");
        assert!(deliveries.set_asked(&key, "e1", &first));
        assert!(!deliveries.set_asked(&key, "e1", &first), "it is no news");
        let delivered = |responder: &str, problem: Option<&str>| {
            Some(Delivered { responder: responder.to_owned(), problem: problem.map(str::to_owned) })
        };
        assert_eq!(deliveries.asked(&key, "e1"), delivered("self", None));
        deliveries.failed(&key, "e1", &second, "500", now);
        deliveries.failed(&key, "e2", &first, "500", now);
        assert_eq!(deliveries.asked(&key, "e1"), delivered("self", None), "the failure of another question");
        deliveries.failed(&key, "e1", &first, "500", now);
        deliveries.failed(&key, "e1", &first, "501", now + TOLD_AGAIN / 2);
        assert_eq!(deliveries.asked(&key, "e1"), delivered("self", Some("500")));
        deliveries.failed(&key, "e1", &first, "502", now + TOLD_AGAIN);
        assert_eq!(deliveries.asked(&key, "e1"), delivered("self", Some("502")));
        assert_eq!(deliveries.asked(&key, "e2"), None, "another Evacuation of that name");
        deliveries.next(&key, "e1", &second, now);
        deliveries.set_asked(&key, "e1", &second);
        assert_eq!(deliveries.asked(&key, "e1"), delivered("a.b/c", None));
        deliveries.clear();
        assert_eq!(deliveries.asked(&key, "e1"), None, "another process leads: it asks again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_failed_is_posted_again_after_growing_pauses() {
        let (deliveries, key) = (Deliveries::default(), ObjectKey::new("ns", "a"));
        let ask = question(ReviewAction::Ask, 1);
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Post(_)));
            let again = deliveries.over(&key, "e1", &ask, false, now).unwrap();
            assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::At(time) if time == again));
            pauses.push(again.duration_since(now));
            now = again;
        }
        assert!(pauses[0] <= Duration::from_secs(1) && pauses[0] >= Duration::from_millis(750));
        assert!(pauses[7] <= Duration::from_secs(15) && pauses[7] >= Duration::from_secs(11));
    }

    #[tokio::test(start_paused = true)]
    async fn a_newer_question_overtakes_one_that_hangs() {
        let (deliveries, key, now) = (Deliveries::default(), ObjectKey::new("ns", "a"), Instant::now());
        let ask = question(ReviewAction::Ask, 1);
        let Next::Post(asking) = deliveries.next(&key, "e1", &ask, now) else { panic!("not posted") };
        let cancel = question(ReviewAction::Cancel, 2);
        assert!(matches!(deliveries.next(&key, "e1", &cancel, now), Next::Post(_)));
        assert!(asking.is_cancelled());
        assert_eq!(
            deliveries.over(&key, "e1", &ask, false, now),
            None,
            "what became of the old one no longer matters"
        );
    }
}
