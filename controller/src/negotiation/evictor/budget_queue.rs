//! Queues of evictions that wait for a budget.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use evacuation_protocol::PROBE_SECONDS;
use tokio::time::Instant;

use super::pace::Pace;
use crate::cluster::ObjectKey;

/// Pause after which a blocked queue tries an eviction anyway, for a webhook or a stale budget can hide that
/// it is free.
const PROBE_EVERY: Duration = Duration::from_secs(PROBE_SECONDS.unsigned_abs());
/// Time for which an eviction that the API took is counted against a budget whose status does not show it.
const UNSEEN_FOR: Duration = Duration::from_secs(10);

/// Permission of an eviction to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It may go now. The caller then calls [`BudgetQueues::finished`] or [`BudgetQueues::leave`].
    Go,
    /// It waits. When a disruption becomes free it is woken; the first of a queue asks again at the time
    /// given.
    Wait(Option<Instant>),
}

/// Outcome of an eviction that had its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The API took it: it spent a disruption.
    Accepted,
    /// The budget allows none, whatever its status said.
    BudgetExhausted,
    /// It failed for a reason of its own, or was never tried.
    Other,
}

/// Status of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BudgetStatus {
    /// Number of disruptions that it allows.
    pub(crate) disruptions_allowed: i32,
    /// The pods whose evictions it counts already, although they are not gone.
    pub(crate) disrupted_pods: Vec<String>,
    /// True when it has as many healthy pods as it wants, so that unhealthy ones may go without spending a
    /// disruption.
    pub(crate) healthy: bool,
}

/// One queue a budget.
///
/// # Guarantees
///
/// No more evictions are let go than the budget's newest status allows, less those whose effect that status
/// cannot show yet; so about one eviction call is made a pod. First come, first served. A blocked queue lets
/// its first go once a [`PROBE_EVERY`].
#[derive(Debug, Default)]
pub(crate) struct BudgetQueues {
    queues: HashMap<ObjectKey, Queue>,
    place: HashMap<ObjectKey, ObjectKey>,
}

#[derive(Debug)]
struct Queue {
    status: BudgetStatus,
    waiting: VecDeque<ObjectKey>,
    under_way: HashMap<ObjectKey, UnderWay>,
    /// Pods whose eviction the API took, and the status does not show.
    unseen: HashMap<String, Instant>,
    probe_at: Instant,
    pace: Pace,
    /// The budget said no although its status allowed a disruption; the status counts again when it changes.
    denied: bool,
}

#[derive(Debug)]
struct UnderWay {
    pod: String,
    /// The status shows it already.
    seen: bool,
    probe: bool,
}

impl BudgetQueues {
    /// Asks whether the eviction of `pod` on behalf of `evacuation` may go, as far as `budget` is concerned;
    /// queues it if not. Also returns whom to wake, for an eviction that leaves the queue of another budget
    /// makes room there.
    pub(crate) fn ask(
        &mut self,
        budget: &ObjectKey,
        status: impl FnOnce() -> BudgetStatus,
        evacuation: &ObjectKey,
        pod: &str,
        now: Instant,
    ) -> (Turn, Vec<ObjectKey>) {
        let moves = self.place.get(evacuation).is_some_and(|other| other != budget);
        let woken = if moves { self.leave(evacuation, now) } else { Vec::new() };
        self.place.insert(evacuation.clone(), budget.clone());
        let queue = self.queues.entry(budget.clone()).or_insert_with(|| Queue::new(status(), now));
        (queue.ask(evacuation, pod, now), woken)
    }

    /// Takes in a budget's status. Returns whom to wake.
    pub(crate) fn observe(
        &mut self,
        budget: &ObjectKey,
        status: BudgetStatus,
        now: Instant,
    ) -> Vec<ObjectKey> {
        let Some(queue) = self.queues.get_mut(budget) else {
            return Vec::new();
        };
        let recovered = status.healthy && !queue.status.healthy;
        queue.observe(status);
        let woken = if recovered { queue.waiting.iter().cloned().collect() } else { queue.wake(now) };
        self.tidy();
        woken
    }

    /// Takes in that a budget is gone. Returns whom to wake.
    pub(crate) fn forget(&mut self, budget: &ObjectKey) -> Vec<ObjectKey> {
        let Some(queue) = self.queues.remove(budget) else {
            return Vec::new();
        };
        let keys: Vec<ObjectKey> = queue.waiting.into_iter().chain(queue.under_way.into_keys()).collect();
        for key in &keys {
            self.place.remove(key);
        }
        keys
    }

    /// Takes in how an eviction that had its turn went, and how long its call took. Returns whom to wake.
    pub(crate) fn finished(
        &mut self,
        evacuation: &ObjectKey,
        end: TurnEnd,
        took: Option<Duration>,
        now: Instant,
    ) -> Vec<ObjectKey> {
        let Some(queue) = self.place.get(evacuation).and_then(|budget| self.queues.get_mut(budget)) else {
            return Vec::new();
        };
        if let Some(call) = took {
            queue.pace.took(call, now);
        }
        queue.finished(evacuation, end, now);
        let woken = queue.wake(now);
        self.place.remove(evacuation);
        self.tidy();
        woken
    }

    /// Takes an eviction out of its queue. Returns whom to wake.
    pub(crate) fn leave(&mut self, evacuation: &ObjectKey, now: Instant) -> Vec<ObjectKey> {
        let Some(budget) = self.place.remove(evacuation) else {
            return Vec::new();
        };
        let Some(queue) = self.queues.get_mut(&budget) else {
            return Vec::new();
        };
        let was_first = queue.waiting.front() == Some(evacuation);
        queue.waiting.retain(|key| key != evacuation);
        let went = queue.under_way.remove(evacuation).is_some();
        let woken = if was_first || went { queue.wake(now) } else { Vec::new() };
        self.tidy();
        woken
    }

    /// Number of evictions that wait for a budget.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.waiting.len()).sum()
    }

    fn tidy(&mut self) {
        self.queues.retain(|key, q| {
            // A queue of several budgets sees no change of them that would end its denial.
            let denied = q.denied && !key.name.contains(',');
            !(q.waiting.is_empty() && q.under_way.is_empty() && q.unseen.is_empty() && !denied)
        });
    }
}

impl Queue {
    fn new(status: BudgetStatus, now: Instant) -> Self {
        Self {
            status,
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            unseen: HashMap::new(),
            probe_at: now + PROBE_EVERY,
            pace: Pace::default(),
            denied: false,
        }
    }

    fn ask(&mut self, evacuation: &ObjectKey, pod: &str, now: Instant) -> Turn {
        if let Some(known) = self.under_way.get(evacuation) {
            if known.probe || known.seen || self.counted() <= self.allowed() {
                return Turn::Go;
            }
            // The budget was spent otherwise before it went.
            self.under_way.remove(evacuation);
            self.waiting.push_front(evacuation.clone());
        }
        if !self.waiting.contains(evacuation) {
            self.waiting.push_back(evacuation.clone());
        }
        let position = self.waiting.iter().position(|key| key == evacuation).unwrap_or(usize::MAX);
        let free = position < self.free(now);
        let probe = !free && position == 0 && self.under_way.is_empty() && now >= self.probe_at;
        if free || probe {
            self.waiting.remove(position);
            self.under_way.insert(evacuation.clone(), UnderWay { pod: pod.to_owned(), seen: false, probe });
            self.probe_at = now + PROBE_EVERY;
            return Turn::Go;
        }
        Turn::Wait((position == 0).then(|| self.ask_again()))
    }

    /// Moment at which the first asks again by itself: at the next probe, or when what the status never
    /// showed no longer counts.
    fn ask_again(&self) -> Instant {
        let oldest = self.unseen.values().min().filter(|_| self.allowed() > 0);
        oldest.map_or(self.probe_at, |since| self.probe_at.min(*since + UNSEEN_FOR))
    }

    /// Number of disruptions that the status allows, while the status is current.
    fn allowed(&self) -> usize {
        if self.denied { 0 } else { usize::try_from(self.status.disruptions_allowed).unwrap_or(0) }
    }

    /// Number of evictions that count against the status and that it does not show.
    fn counted(&self) -> usize {
        self.under_way.values().filter(|u| !u.seen && !u.probe).count() + self.unseen.len()
    }

    /// Number of further evictions that may go now.
    fn free(&mut self, now: Instant) -> usize {
        self.unseen.retain(|_, since| now.duration_since(*since) < UNSEEN_FOR);
        let counted = self.counted();
        self.allowed().saturating_sub(counted).min(self.pace.width().saturating_sub(self.under_way.len()))
    }

    fn observe(&mut self, status: BudgetStatus) {
        for pod in &status.disrupted_pods {
            self.unseen.remove(pod);
            for under_way in self.under_way.values_mut().filter(|u| &u.pod == pod) {
                under_way.seen = true;
            }
        }
        self.status = status;
        self.denied = false;
    }

    fn finished(&mut self, evacuation: &ObjectKey, end: TurnEnd, now: Instant) {
        let Some(under_way) = self.under_way.remove(evacuation) else {
            return;
        };
        match end {
            TurnEnd::Accepted if !under_way.seen => {
                self.unseen.insert(under_way.pod, now);
            }
            TurnEnd::BudgetExhausted => self.denied = true,
            TurnEnd::Accepted | TurnEnd::Other => {}
        }
    }

    /// Those who may go, or the first, who must learn when the next probe is.
    fn wake(&mut self, now: Instant) -> Vec<ObjectKey> {
        let count = self.free(now).max(1);
        self.waiting.iter().take(count).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: &str = "budget";

    struct World {
        turns: BudgetQueues,
        now: Instant,
        status: BudgetStatus,
    }

    impl World {
        fn new(allowed: i32) -> Self {
            Self { turns: BudgetQueues::default(), now: Instant::now(), status: status(allowed, &[]) }
        }

        fn ask(&mut self, name: &str) -> Turn {
            let status = self.status.clone();
            self.turns.ask(&key(BUDGET), || status, &key(name), &format!("pod-{name}"), self.now).0
        }

        fn observe(&mut self, allowed: i32, disrupted: &[&str]) -> Vec<String> {
            self.status = status(allowed, disrupted);
            names(self.turns.observe(&key(BUDGET), self.status.clone(), self.now))
        }

        fn finished(&mut self, name: &str, end: TurnEnd) -> Vec<String> {
            names(self.turns.finished(&key(name), end, None, self.now))
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn names(keys: Vec<ObjectKey>) -> Vec<String> {
        keys.into_iter().map(|key| key.name).collect()
    }

    fn status(disruptions_allowed: i32, disrupted: &[&str]) -> BudgetStatus {
        BudgetStatus {
            disruptions_allowed,
            disrupted_pods: disrupted.iter().map(|&s| s.to_owned()).collect(),
            healthy: true,
        }
    }

    fn waits(turn: Turn) -> bool {
        matches!(turn, Turn::Wait(_))
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_go_as_the_budget_allows_and_the_rest_wait_in_order() {
        let mut world = World::new(2);
        assert_eq!((world.ask("a"), world.ask("b")), (Turn::Go, Turn::Go));
        assert!(waits(world.ask("c")) && waits(world.ask("d")));
        assert_eq!(world.ask("a"), Turn::Go, "a turn that was given stays given");
        world.finished("a", TurnEnd::Accepted);
        world.finished("b", TurnEnd::Accepted);
        assert!(waits(world.ask("c")), "the status does not show the two evictions yet, but they count");
        assert_eq!(world.observe(1, &["pod-a"]), ["c"], "the first is woken");
        assert!(waits(world.ask("c")), "one allowed, and the eviction of b is not shown yet");
        assert_eq!(world.observe(0, &["pod-a", "pod-b"]), ["c"]);
        assert!(waits(world.ask("c")));
        assert_eq!(world.observe(1, &[]), ["c"], "a pod became healthy elsewhere");
        assert!(waits(world.ask("d")), "the first in the queue goes first");
        assert_eq!(world.ask("c"), Turn::Go);
        assert!(waits(world.ask("d")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_was_not_used_is_given_back_when_the_budget_was_spent_otherwise() {
        let mut world = World::new(2);
        assert_eq!((world.ask("a"), world.ask("b")), (Turn::Go, Turn::Go));
        assert!(waits(world.ask("c")));
        world.observe(1, &[]);
        assert!(waits(world.ask("b")));
        assert_eq!(world.ask("a"), Turn::Go, "one is allowed");
        assert_eq!(world.observe(2, &[]), ["b"], "it is the first of those that wait");
        assert_eq!(world.ask("b"), Turn::Go);
        assert!(waits(world.ask("c")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_arrives_before_the_reply_is_not_counted_twice() {
        let mut world = World::new(2);
        assert_eq!(world.ask("a"), Turn::Go);
        world.observe(1, &["pod-a"]);
        world.finished("a", TurnEnd::Accepted);
        assert_eq!(world.ask("b"), Turn::Go);
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_that_the_status_never_shows_is_forgotten_after_a_while() {
        let mut world = World::new(1);
        assert_eq!(world.ask("a"), Turn::Go);
        world.finished("a", TurnEnd::Accepted);
        let forgotten = world.now + UNSEEN_FOR;
        assert_eq!(world.ask("b"), Turn::Wait(Some(forgotten)), "it asks again by itself");
        world.pass(10);
        assert_eq!(world.ask("b"), Turn::Go);
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_queue_lets_its_first_go_once_a_minute() {
        let mut world = World::new(0);
        let start = world.now;
        assert_eq!(world.ask("a"), Turn::Wait(Some(start + PROBE_EVERY)));
        assert_eq!(world.ask("b"), Turn::Wait(None));
        world.pass(60);
        assert!(waits(world.ask("b")));
        assert_eq!(world.ask("a"), Turn::Go);
        assert_eq!(
            world.finished("a", TurnEnd::BudgetExhausted),
            ["b"],
            "the next must learn when the next probe is"
        );
        assert_eq!(world.ask("b"), Turn::Wait(Some(start + Duration::from_mins(2))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_that_says_no_is_believed_over_its_status_until_the_status_changes() {
        let mut world = World::new(5);
        assert_eq!(world.ask("a"), Turn::Go);
        world.finished("a", TurnEnd::BudgetExhausted);
        assert!(waits(world.ask("b")), "a stale budget does not cost one call a pod");
        assert_eq!(world.observe(5, &[]), ["b"]);
        assert_eq!(world.ask("b"), Turn::Go);
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_that_fails_for_a_reason_of_its_own_lets_the_next_go() {
        let mut world = World::new(1);
        assert_eq!(world.ask("a"), Turn::Go);
        assert!(waits(world.ask("b")));
        assert_eq!(world.finished("a", TurnEnd::Other), ["b"]);
        assert_eq!(world.ask("b"), Turn::Go);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_makes_room() {
        let mut world = World::new(1);
        assert_eq!(world.ask("a"), Turn::Go);
        assert!(waits(world.ask("b")) && waits(world.ask("c")));
        assert_eq!(names(world.turns.leave(&key("b"), world.now)), ["c"]);
        assert_eq!(names(world.turns.leave(&key("a"), world.now)), ["c"]);
        assert_eq!(world.ask("c"), Turn::Go);
        world.turns.leave(&key("c"), world.now);
        assert!(world.turns.queues.is_empty() && world.turns.place.is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_under_another_budget_makes_room_under_the_first() {
        let mut world = World::new(1);
        assert_eq!(world.ask("a"), Turn::Go);
        assert!(waits(world.ask("b")));
        let (turn, woken) = world.turns.ask(&key("other"), || status(1, &[]), &key("a"), "pod-a", world.now);
        assert_eq!((turn, names(woken)), (Turn::Go, vec!["b".to_owned()]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_that_goes_wakes_everyone() {
        let mut world = World::new(1);
        assert_eq!(world.ask("a"), Turn::Go);
        assert!(waits(world.ask("b")));
        let mut woken = names(world.turns.forget(&key(BUDGET)));
        woken.sort();
        assert_eq!(woken, ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn everyone_is_woken_when_the_budget_is_healthy_again_for_unhealthy_pods_may_go_then() {
        let mut world = World::new(0);
        world.status.healthy = false;
        assert!(waits(world.ask("a")) && waits(world.ask("b")));
        assert_eq!(world.observe(0, &[]), ["a", "b"]);
        assert_eq!(world.observe(0, &[]), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn at_first_four_are_under_way_at_once_and_fewer_when_their_calls_are_slow() {
        let mut world = World::new(100);
        let turns: Vec<Turn> = ["a", "b", "c", "d", "e"].iter().map(|name| world.ask(name)).collect();
        assert_eq!(turns.iter().filter(|turn| **turn == Turn::Go).count(), 4);
        let slow = Some(Duration::from_secs(4));
        let mut finish = |name| names(world.turns.finished(&key(name), TurnEnd::Accepted, slow, world.now));
        assert_eq!(finish("a"), ["e"], "the first of those that wait learns of it in any case");
        assert!(waits(world.ask("e")), "two may be under way, and three are");
        let mut finish = |name| names(world.turns.finished(&key(name), TurnEnd::Accepted, slow, world.now));
        assert_eq!((finish("b"), finish("c")), (vec!["e".to_owned()], vec!["e".to_owned()]));
        assert_eq!(world.ask("e"), Turn::Go);
    }
}
