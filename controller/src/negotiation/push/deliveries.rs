//! Delivered questions, and the times at which the others are posted again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use chrono::{DateTime, Utc};
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
    /// The time at which it first reached the endpoint. All times here are by the API server's clock.
    reached: Option<DateTime<Utc>>,
    /// The time of the first attempt that did not reach the endpoint, by its own fault.
    unreached: Option<DateTime<Utc>>,
    /// The time at which the endpoint took the question of the attempt under way.
    sent: Option<DateTime<Utc>>,
    /// True while the reply of the endpoint is not recorded yet.
    replied: bool,
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

/// End of one attempt to post a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostEnd {
    /// The answer is recorded, or nobody waits for it any more.
    Done,
    /// The endpoint did not answer.
    Failed,
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
            // The reply in hand is recorded first: its endpoint can be gone, and is not asked again.
            Some(known) if known.uid == uid && known.replied && question.action != ReviewAction::Cancel => {
                Next::Nothing
            }
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
                    reached: None,
                    unreached: None,
                    sent: None,
                    replied: false,
                    problem: None,
                    overtaken: overtaken.clone(),
                };
                responders.insert(question.responder.clone(), delivery);
                Next::Post(overtaken)
            }
        }
    }

    /// Records that the endpoint took the question that is being posted. It can still break the attempt off.
    pub(crate) fn set_sent(&self, key: &ObjectKey, uid: &str, question: &Push, at: DateTime<Utc>) {
        self.of(key, uid, question, |delivery| delivery.sent = Some(at));
    }

    /// Records that a question reached its endpoint at that time. True when that is news.
    pub(crate) fn set_reached(&self, key: &ObjectKey, uid: &str, question: &Push, at: DateTime<Utc>) -> bool {
        let news = self.of(key, uid, question, |delivery| {
            let is_news = delivery.reached.is_none();
            if is_news {
                (delivery.reached, delivery.problem) = (Some(at), None);
            }
            is_news
        });
        news.unwrap_or_default()
    }

    /// Records that a question did not reach its endpoint at that time, by the endpoint's own fault. True
    /// when that is news.
    pub(crate) fn set_unreached(
        &self,
        key: &ObjectKey,
        uid: &str,
        question: &Push,
        at: DateTime<Utc>,
    ) -> bool {
        let news = self.of(key, uid, question, |delivery| {
            let is_news = delivery.unreached.is_none();
            delivery.unreached.get_or_insert(at);
            is_news
        });
        news.unwrap_or_default()
    }

    /// Returns the time at which a question first reached its endpoint.
    pub(crate) fn reached(&self, key: &ObjectKey, uid: &str, question: &Push) -> Option<DateTime<Utc>> {
        self.of(key, uid, question, |delivery| delivery.reached).flatten()
    }

    /// Records that the endpoint has replied to the question that is being posted.
    pub(crate) fn set_replied(&self, key: &ObjectKey, uid: &str, question: &Push) {
        self.of(key, uid, question, |delivery| delivery.replied = true);
    }

    /// Calls `act` with the delivery of a question, unless a newer one has taken its place.
    fn of<T>(
        &self,
        key: &ObjectKey,
        uid: &str,
        question: &Push,
        act: impl FnOnce(&mut Delivery) -> T,
    ) -> Option<T> {
        let mut all = self.lock();
        let delivery = all.get_mut(key)?.get_mut(&question.responder)?;
        (delivery.uid == uid && delivery.question == *question).then(|| act(delivery))
    }

    /// Records why the question failed that is under way: the first time, and then once in [`TOLD_AGAIN`].
    pub(crate) fn failed(&self, key: &ObjectKey, uid: &str, question: &Push, problem: &str, now: Instant) {
        self.of(key, uid, question, |delivery| {
            let is_due = |(_, told): &(String, Instant)| now.saturating_duration_since(*told) >= TOLD_AGAIN;
            if delivery.problem.as_ref().is_none_or(is_due) {
                delivery.problem = Some((problem.to_owned(), now));
            }
        });
    }

    /// The last question about an Evacuation that this process delivered.
    pub(crate) fn asked(&self, key: &ObjectKey, uid: &str) -> Option<Delivered> {
        let all = self.lock();
        let responders = all.get(key)?.values();
        let questions =
            responders.filter(|known| known.uid == uid && known.question.action != ReviewAction::Cancel);
        // Only one responder is active at a time, and those before it have answered or are passed over.
        let tried = questions.filter(|known| known.reached.or(known.unreached).or(known.sent).is_some());
        tried.max_by_key(|known| known.question.due).map(|last| Delivered {
            question: last.question.clone(),
            reached: last.reached,
            unreached: last.unreached,
            sent: last.sent,
            replied: last.replied,
            problem: last.problem.as_ref().map(|(problem, _)| problem.clone()),
        })
    }

    /// Takes in how the posting of a question went. Returns when to post it again.
    pub(crate) fn over(
        &self,
        key: &ObjectKey,
        uid: &str,
        question: &Push,
        end: PostEnd,
        now: Instant,
    ) -> Option<Instant> {
        self.of(key, uid, question, |delivery| {
            delivery.sent = None;
            delivery.replied = false;
            if end == PostEnd::Done {
                delivery.state = State::Delivered;
                return None;
            }
            delivery.failures += 1;
            let again = now + machinery_watch::backoff(PAUSE.0, PAUSE.1, delivery.failures);
            delivery.state = State::Waiting(again);
            Some(again)
        })
        .flatten()
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
    use super::*;

    fn question(action: ReviewAction, due: i64) -> Push {
        Push { responder: "self".into(), action, due: at_second(due) }
    }

    fn at_second(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_posted_once_when_it_is_delivered() {
        let (deliveries, key, now) = (Deliveries::default(), ObjectKey::new("ns", "a"), Instant::now());
        let ask = question(ReviewAction::Ask, 1);
        assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Post(_)));
        assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Nothing), "it is being posted");
        assert_eq!(deliveries.over(&key, "e1", &ask, PostEnd::Done, now), None);
        assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Nothing), "it was delivered");
        assert!(
            matches!(deliveries.next(&key, "e2", &ask, now), Next::Post(_)),
            "another Evacuation of that name"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn rule_9_a_responder_was_asked_when_its_own_first_question_was_delivered() {
        let (deliveries, key, now) = (Deliveries::default(), ObjectKey::new("ns", "a"), Instant::now());
        let at = at_second(5);
        let first = question(ReviewAction::Ask, 1);
        let second = Push { responder: "a.b/c".to_owned(), ..question(ReviewAction::Ask, 9) };
        assert!(!deliveries.set_reached(&key, "e1", &first, at), "it was never posted");
        deliveries.next(&key, "e1", &first, now);
        assert_eq!(deliveries.asked(&key, "e1"), None, "it is on its way");
        deliveries.set_sent(&key, "e1", &first, at_second(3));
        let times = || deliveries.asked(&key, "e1").map(|asked| (asked.reached, asked.unreached, asked.sent));
        assert_eq!(times(), Some((None, None, Some(at_second(3)))), "it can be broken off");
        deliveries.failed(&key, "e1", &first, "refused", now);
        assert!(deliveries.set_unreached(&key, "e1", &first, at_second(4)), "it is out of reach");
        deliveries.over(&key, "e1", &first, PostEnd::Failed, now);
        assert_eq!(times(), Some((None, Some(at_second(4)), None)));
        assert!(!deliveries.set_unreached(&key, "e1", &first, at_second(5)), "it is no news");
        assert!(deliveries.set_reached(&key, "e1", &first, at));
        assert!(!deliveries.set_reached(&key, "e1", &first, at_second(9)), "it is no news");
        assert_eq!(deliveries.reached(&key, "e1", &first), Some(at));
        let delivered = |question: &Push, unreached: Option<i64>, problem: Option<&str>| {
            let (question, problem) = (question.clone(), problem.map(str::to_owned));
            let unreached = unreached.map(at_second);
            Some(Delivered { question, reached: Some(at), unreached, sent: None, replied: false, problem })
        };
        assert_eq!(deliveries.asked(&key, "e1"), delivered(&first, Some(4), None), "it is in reach again");
        deliveries.failed(&key, "e1", &second, "500", now);
        deliveries.failed(&key, "e2", &first, "500", now);
        assert_eq!(
            deliveries.asked(&key, "e1"),
            delivered(&first, Some(4), None),
            "the failure of another question"
        );
        deliveries.failed(&key, "e1", &first, "500", now);
        deliveries.failed(&key, "e1", &first, "501", now + TOLD_AGAIN / 2);
        assert_eq!(deliveries.asked(&key, "e1"), delivered(&first, Some(4), Some("500")));
        deliveries.failed(&key, "e1", &first, "502", now + TOLD_AGAIN);
        assert_eq!(deliveries.asked(&key, "e1"), delivered(&first, Some(4), Some("502")));
        assert_eq!(deliveries.asked(&key, "e2"), None, "another Evacuation of that name");
        deliveries.next(&key, "e1", &second, now);
        deliveries.set_reached(&key, "e1", &second, at);
        assert_eq!(deliveries.asked(&key, "e1"), delivered(&second, None, None));
        deliveries.clear();
        assert_eq!(deliveries.asked(&key, "e1"), None, "another process leads: it asks again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_is_in_hand_until_its_question_is_over() {
        let (deliveries, key, now) = (Deliveries::default(), ObjectKey::new("ns", "a"), Instant::now());
        let (ask, remind) = (question(ReviewAction::Ask, 1), question(ReviewAction::Remind, 2));
        let is_replied = || deliveries.asked(&key, "e1").map(|asked| (asked.question.action, asked.replied));
        deliveries.next(&key, "e1", &ask, now);
        deliveries.set_reached(&key, "e1", &ask, at_second(1));
        deliveries.set_replied(&key, "e1", &ask);
        assert_eq!(is_replied(), Some((ReviewAction::Ask, true)));
        assert!(matches!(deliveries.next(&key, "e1", &remind, now), Next::Nothing), "it is recorded first");
        assert_eq!(is_replied(), Some((ReviewAction::Ask, true)));
        deliveries.over(&key, "e1", &ask, PostEnd::Failed, now);
        assert_eq!(is_replied(), Some((ReviewAction::Ask, false)), "it was of another pod");
        deliveries.next(&key, "e1", &remind, now);
        assert_eq!(is_replied(), None, "the newer question is on its way");
        deliveries.set_replied(&key, "e1", &ask);
        deliveries.set_reached(&key, "e1", &remind, at_second(2));
        assert_eq!(is_replied(), Some((ReviewAction::Remind, false)), "the reply was to another question");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_failed_is_posted_again_after_growing_pauses() {
        let (deliveries, key) = (Deliveries::default(), ObjectKey::new("ns", "a"));
        let ask = question(ReviewAction::Ask, 1);
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(matches!(deliveries.next(&key, "e1", &ask, now), Next::Post(_)));
            let again = deliveries.over(&key, "e1", &ask, PostEnd::Failed, now).unwrap();
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
            deliveries.over(&key, "e1", &ask, PostEnd::Failed, now),
            None,
            "what became of the old one no longer matters"
        );
    }
}
