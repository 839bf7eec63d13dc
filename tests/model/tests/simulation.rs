//! Whole Evacuations, played with a virtual clock against the functions that the server and the controller
//! call: whatever happens in whatever order, the invariants hold, states go only along the table, the fence
//! holds, and with a deadline every negotiation ends.

// Helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Answer, DeadlineAction, Evacuation, EvacuationResponseSpec, EvacuationSpec, EvacuationStatus, PodTarget,
    RefusalPolicy, Requester, ResponderEntry, ResponderState, ScheduledDeadline, Window,
};
use evacuation_model::violations;
use evacuation_protocol::{
    ATTEMPT_TIMEOUT_SECONDS, Act, Attempt, BudgetState, BudgetView, Editor, EvictionOutcome, LivePod,
    PHASE_TRANSITIONS, Phase, PodPhase, PodView, StatusError, TRANSITIONS, World, answer,
    apply_requester_edit, begin, check_requester_edit, check_status_update, decide, delete, fix_responders,
    is_finished, phase, record_eviction,
};
use proptest::prelude::*;

/// In seconds.
const DAY: i64 = 24 * 3600;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

#[derive(Clone, Debug)]
struct Entry {
    on_refusal: RefusalPolicy,
    deadline: Option<(i64, DeadlineAction)>,
    /// The minute after the beginning at which its window opens, for a minute.
    window: Option<u32>,
    /// The time that the caller behind it has to delete the pod itself.
    caller: Option<i64>,
}

impl Entry {
    fn requester(&self, user: usize) -> Requester {
        Requester {
            owner: user.to_string(),
            on_refusal: Some(self.on_refusal),
            deadline: self.deadline.map(|(seconds, _)| at(seconds).into()),
            at_deadline: self.deadline.map(|(_, action)| action),
            caller_deletes_within_seconds: self.caller,
            window: self.window.map(|minute| Window {
                schedule: format!("{minute} 0 * * *"),
                duration_seconds: 60,
                time_zone: None,
            }),
            ..Requester::named(format!("a.b/{user}"))
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Control {
        skew: i64,
    },
    Crash,
    Recover,
    Land,
    Reply,
    Answer {
        responder: usize,
        answer: Answer,
        seconds: i64,
    },
    Acknowledge {
        responder: usize,
    },
    Join {
        user: usize,
        entry: Entry,
    },
    Withdraw {
        user: usize,
    },
    Delete,
    PodGoes,
    PodTerminates,
    PodEnds,
    PodStops(bool),
    Budget(Option<i32>),
    Forge {
        responder: usize,
        state: ResponderState,
        eviction: Option<(bool, bool)>,
        end: Option<(&'static str, &'static str)>,
    },
}

/// The result of a look of the controller.
enum Look {
    /// It did something, and looks again at once.
    Acted,
    /// It has nothing to do until then.
    Rests(Option<DateTime<Utc>>),
}

struct Sim {
    evacuation: Evacuation,
    now: i64,
    pod: PodView,
    budget: Option<i32>,
    recovered: Option<i64>,
    attempt: Attempt,
    /// An eviction that was posted and has not arrived, and until when it can.
    under_way: Option<i64>,
    /// The reply that has not been read.
    reply: Option<EvictionOutcome>,
    withdrawn: bool,
    /// The windows of the entries, by name, and when they wake.
    windows: HashMap<String, (u32, i64)>,
}

impl Sim {
    fn new(entries: &[Entry], registered: Vec<ResponderEntry>) -> Self {
        let pod = PodTarget { name: "p".to_owned(), uid: Some("pod-1".to_owned()) };
        let requesters = entries.iter().enumerate().map(|(user, e)| e.requester(user)).collect();
        let spec =
            EvacuationSpec { ttl_seconds_after_finished: Some(60), ..EvacuationSpec::new(pod, requesters) };
        let mut status = begin(&spec, "0", &[], at(0));
        for (user, recorded) in status.requesters.iter_mut().enumerate() {
            recorded.user = user.to_string();
        }
        let pod = LivePod {
            phase: PodPhase::Running,
            terminating_until: None,
            running_container: true,
            ready: true,
        };
        fix_responders(&mut status, &spec.requesters, &pod, &registered.into(), false, at(0));
        let mut evacuation = Evacuation::new("e", spec);
        evacuation.metadata.uid = Some("evac-1".to_owned());
        evacuation.metadata.generation = Some(1);
        evacuation.status = Some(status);
        let mut sim = Self {
            evacuation,
            now: 0,
            pod: PodView::Live(pod),
            budget: None,
            recovered: None,
            attempt: Attempt::Unknown,
            under_way: None,
            reply: None,
            withdrawn: false,
            windows: HashMap::new(),
        };
        for (user, entry) in entries.iter().enumerate() {
            sim.note_window(user, Some(entry));
        }
        sim
    }

    /// Reckons by itself when an entry wakes.
    fn note_window(&mut self, user: usize, entry: Option<&Entry>) {
        let name = format!("a.b/{user}");
        let Some(minute) = entry.and_then(|e| e.window) else {
            self.windows.remove(&name);
            return;
        };
        if self.windows.get(&name).is_some_and(|(known, _)| *known == minute) {
            return;
        }
        let opening = i64::from(minute) * 60;
        let days = (self.now - opening - 60).div_euclid(DAY) + 1;
        let wakes = (opening + days * DAY).max(self.now);
        self.windows.insert(name, (minute, wakes));
    }

    /// Returns true when there are entries that have not expired, and all of them sleep.
    fn all_asleep(&self) -> bool {
        let policy = self.status().policy.clone().unwrap_or_default();
        let (mut live, mut awake) = (false, false);
        for r in &self.evacuation.spec.requesters {
            let woke = self.windows.get(&r.name).is_none_or(|(_, wakes)| *wakes <= self.now);
            let forces = |d: &ScheduledDeadline| d.reached && d.requester == r.name;
            let by_deadline = policy.deadlines.iter().filter(|d| forces(d));
            let (gave_up, others): (Vec<_>, Vec<_>) =
                by_deadline.partition(|d| d.action == DeadlineAction::GiveUp);
            live |= gave_up.is_empty();
            awake |= gave_up.is_empty() && (woke || !others.is_empty());
        }
        live && !awake
    }

    fn status(&self) -> &EvacuationStatus {
        self.evacuation.status.as_ref().unwrap()
    }

    fn world(&self) -> World {
        let budgets = self.budget.map(|disruptions_allowed| BudgetView {
            name: "db".to_owned(),
            disruptions_allowed,
            current_healthy: 3,
            desired_healthy: 3,
            state: BudgetState::Counted,
            always_allow_unhealthy: false,
        });
        World {
            pod: self.pod.clone(),
            node_silent_since: None,
            budgets: budgets.into_iter().collect(),
            turn: self.budget.is_some_and(|allowed| allowed > 0),
            busy: false,
            recovered_at: self.recovered.map(at),
            asked: None,
            attempt: self.attempt,
            group: Vec::new(),
            no_room: self.budget.filter(|allowed| *allowed == 0).map(|_| "db".to_owned()),
        }
    }

    /// The server's end of a write of the status by the controller.
    fn write(&mut self, proposed: EvacuationStatus) -> Result<(), Vec<StatusError>> {
        let next = check_status_update(&self.evacuation, proposed, at(self.now))?;
        self.store(next);
        Ok(())
    }

    /// Every change of the status comes through here and is checked.
    fn store(&mut self, next: EvacuationStatus) {
        let before = self.evacuation.clone();
        self.evacuation.status = Some(next);
        let after = &self.evacuation;
        assert_eq!(violations(after), [] as [String; 0], "{after:#?}");
        let (from, to) = (phase(&before), phase(after));
        let known = PHASE_TRANSITIONS.iter().any(|t| (t.from, t.to) == (from, to));
        assert!(from == to || known, "phase {from:?} to {to:?}");
        let states = |e: &Evacuation| e.status.clone().unwrap().responders;
        for (a, b) in states(&before).iter().flatten().zip(states(after).iter().flatten()) {
            let known = TRANSITIONS.iter().any(|t| (t.from, t.to) == (a.state, b.state));
            assert!(a.state == b.state || known, "responder {:?} to {:?}", a.state, b.state);
            assert_eq!(a.name, b.name);
        }
        let (old, new) = (before.status.unwrap(), after.status.clone().unwrap());
        let begun = |s: &EvacuationStatus| {
            let asked = s.responders.iter().flatten().filter(|r| r.active_time.is_some());
            (asked.count(), s.eviction.as_ref().map_or(0, |e| e.attempts))
        };
        assert!(
            begun(&old) == begun(&new) || !self.all_asleep(),
            "somebody is asked, or an eviction is attempted, while everybody sleeps at {}: {:#?}",
            self.now,
            self.evacuation
        );
        if is_finished(&old) {
            let unacknowledged = |mut s: EvacuationStatus| {
                s.responders.iter_mut().flatten().for_each(|r| r.cancellation_acknowledged = false);
                s.observed_generation = None;
                s
            };
            assert_eq!(unacknowledged(old), unacknowledged(new), "nothing changes after the end");
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(seconds) => self.now += seconds,
            Step::Control { skew } => {
                self.control(skew);
            }
            Step::Crash => {
                self.attempt = Attempt::Unknown;
                self.reply = None;
            }
            Step::Recover => self.recovered = Some(self.now),
            Step::Land => self.land(),
            Step::Reply => self.read_reply(),
            Step::Answer { responder, answer: given, seconds } => self.answer(responder, given, seconds),
            Step::Acknowledge { responder } => {
                let spec = EvacuationResponseSpec {
                    responder: self.responder(responder),
                    acknowledge_cancellation: true,
                    ..EvacuationResponseSpec::default()
                };
                if let Ok((status, _)) = answer(&self.evacuation, &spec, at(self.now)) {
                    self.store(status);
                }
            }
            Step::Join { user, entry } => self.edit(user, Some(&entry)),
            Step::Withdraw { user } => self.edit(user, None),
            Step::Delete => {
                if let Ok(deletion) = delete(&self.evacuation, "0", true, false, at(self.now)) {
                    self.withdrawn |= !is_finished(self.status());
                    self.store(deletion.status);
                }
            }
            Step::PodGoes => self.pod = PodView::Gone,
            Step::PodTerminates => {
                let until = at(self.now + 30);
                self.change_pod(|pod| {
                    pod.terminating_until.get_or_insert(until);
                });
            }
            Step::PodEnds => self.change_pod(|pod| pod.phase = PodPhase::Terminal),
            Step::PodStops(running) => self.change_pod(|pod| pod.running_container = running),
            Step::Budget(budget) => self.budget = budget,
            Step::Forge { responder, state, eviction, end } => self.forge(responder, state, eviction, end),
        }
    }

    fn change_pod(&mut self, change: impl FnOnce(&mut LivePod)) {
        if let PodView::Live(pod) = &mut self.pod {
            change(pod);
        }
    }

    fn responder(&self, index: usize) -> Option<String> {
        let all = self.status().responders.as_deref().unwrap_or_default();
        all.get(index % all.len().max(1)).map(|r| r.name.clone())
    }

    fn answer(&mut self, responder: usize, given: Answer, seconds: i64) {
        let spec = EvacuationResponseSpec {
            responder: self.responder(responder),
            answer: Some(given),
            delay_seconds: (given == Answer::Delay).then_some(seconds),
            ..EvacuationResponseSpec::default()
        };
        let was_accepted = self
            .status()
            .responders
            .iter()
            .flatten()
            .any(|r| Some(&r.name) == spec.responder.as_ref() && r.answer == Some(Answer::Accept));
        if let Ok((status, reply)) = answer(&self.evacuation, &spec, at(self.now)) {
            assert!(!was_accepted || given == Answer::Accept, "an Accept binds");
            assert!(reply.granted_seconds.is_none_or(|granted| (1..=seconds).contains(&granted)));
            self.store(status);
        }
    }

    fn edit(&mut self, user: usize, entry: Option<&Entry>) {
        let mut new = self.evacuation.spec.clone();
        let name = format!("a.b/{user}");
        new.requesters.retain(|r| r.name != name);
        new.requesters.extend(entry.map(|e| e.requester(user)));
        let who = user.to_string();
        // Only the gateway stands for callers, and holds the verb.
        let may_override = entry.is_some_and(|entry| entry.caller.is_some());
        let editor = Editor { user: &who, may_override, guarded: true };
        let Ok(edit) = check_requester_edit(&self.evacuation, &new, editor, at(self.now)) else {
            return;
        };
        if edit.is_empty() {
            return;
        }
        self.withdrawn |= new.requesters.is_empty();
        let status = apply_requester_edit(&self.evacuation, &new, &edit, &who, &[], at(self.now));
        self.evacuation.spec = new;
        self.note_window(user, entry);
        self.evacuation.metadata.generation = self.evacuation.metadata.generation.map(|g| g + 1);
        self.store(status);
    }

    /// One look by the controller, whose clock is off by `skew`.
    fn control(&mut self, skew: i64) -> Look {
        let decision = decide(&self.evacuation, &self.world(), at(self.now + skew));
        let again = decide(&self.evacuation, &self.world(), at(self.now + skew));
        assert_eq!(decision, again, "the same input gives the same");
        let mut acted = false;
        for act in decision.acts {
            match act {
                Act::WriteStatus(status) => {
                    let attempts = self.status().eviction.as_ref().map_or(0, |e| e.attempts);
                    match self.write(*status) {
                        Ok(()) => {
                            if self.status().eviction.as_ref().map_or(0, |e| e.attempts) > attempts {
                                self.attempt = Attempt::Recorded;
                            }
                            acted = true;
                        }
                        Err(errors) => {
                            // A clock that is behind sees an older policy than the server's.
                            let early = errors.iter().all(|e| matches!(e, StatusError::NotYet { .. }));
                            assert!(
                                skew < 0 || (skew > 0 && early),
                                "the server refuses what was decided: {errors:?}"
                            );
                        }
                    }
                }
                Act::Evict { .. } | Act::Delete { .. } => {
                    assert_eq!(self.attempt, Attempt::Recorded);
                    assert!(self.status().eviction.as_ref().is_some_and(|e| e.in_flight), "the fence");
                    assert!(!is_finished(self.status()));
                    // An attempt whose time is over, counted from its record, is never posted.
                    let recorded = self.status().eviction.as_ref().and_then(|e| e.last_attempt_time);
                    let until = (recorded.unwrap().0 - at(0)).num_seconds() + ATTEMPT_TIMEOUT_SECONDS;
                    if self.now < until {
                        self.attempt = Attempt::Posted;
                        self.under_way = Some(until);
                    } else {
                        self.attempt = Attempt::Unknown;
                    }
                    acted = true;
                }
                Act::ResolveInFlight => {
                    if self.under_way.is_some_and(|until| until <= self.now) {
                        self.under_way = None;
                    }
                    let outcome = EvictionOutcome::from_pod(&self.pod);
                    acted = self.record(&outcome, skew);
                }
                Act::Push(_) | Act::ReleaseFinalizer | Act::Remove => {}
            }
        }
        if acted { Look::Acted } else { Look::Rests(decision.wake_at) }
    }

    /// The eviction arrives at the API.
    fn land(&mut self) {
        if self.under_way.take().is_none_or(|until| self.now >= until) {
            return;
        }
        assert!(!self.withdrawn, "no withdrawal that succeeded is followed by an eviction");
        let held = self.budget.is_some_and(|allowed| allowed <= 0);
        let until = at(self.now + 2);
        let outcome = match &mut self.pod {
            PodView::Live(_) if held => EvictionOutcome::BudgetExhausted {
                retry_after_seconds: None,
                message: "no".to_owned(),
                budgets: vec!["db".to_owned()],
            },
            PodView::Live(pod) => {
                pod.terminating_until.get_or_insert(until);
                EvictionOutcome::Accepted
            }
            PodView::Gone | PodView::Replaced => EvictionOutcome::PodGone,
        };
        if self.attempt == Attempt::Posted {
            self.reply = Some(outcome);
        }
    }

    fn read_reply(&mut self) {
        if let Some(outcome) = self.reply.take() {
            self.record(&outcome, 0);
        }
    }

    /// Returns true when the server took the outcome. It refuses an attempt counted as lost too early by a
    /// clock that is ahead.
    fn record(&mut self, outcome: &EvictionOutcome, skew: i64) -> bool {
        let proposed = record_eviction(self.status(), outcome, 0.5, at(self.now + skew));
        self.attempt = Attempt::Unknown;
        match self.write(proposed) {
            Ok(()) => true,
            Err(errors) => {
                let early = errors.iter().all(|e| matches!(e, StatusError::NotYet { .. }));
                assert!(skew > 0 && early, "the server refuses an outcome: {errors:?}");
                false
            }
        }
    }

    /// A write of a controller gone mad: it may be refused, and breaks nothing when it is taken.
    fn forge(
        &mut self,
        responder: usize,
        state: ResponderState,
        eviction: Option<(bool, bool)>,
        end: Option<(&str, &str)>,
    ) {
        let mut proposed = self.status().clone();
        if let Some(all) = &mut proposed.responders
            && !all.is_empty()
        {
            let index = responder % all.len();
            all[index].state = state;
        }
        // Of an attempt that is under way it tells no lie: what became of it only the one who posted it can
        // know.
        if let Some((in_flight, accepted)) = eviction.filter(|_| self.under_way.is_none()) {
            let e = proposed.eviction.get_or_insert_default();
            (e.in_flight, e.accepted) = (in_flight, accepted);
        }
        if let Some((kind, reason)) = end {
            proposed.conditions.push(k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
                type_: kind.to_owned(),
                status: "True".to_owned(),
                reason: reason.to_owned(),
                message: String::new(),
                last_transition_time: evacuation_api::condition_time(at(0)),
                observed_generation: None,
            });
        }
        let attempts = self.status().eviction.as_ref().map_or(0, |e| e.attempts);
        if self.write(proposed).is_ok()
            && self.status().eviction.as_ref().map_or(0, |e| e.attempts) > attempts
        {
            self.attempt = Attempt::Unknown;
        }
    }
}

fn entry() -> impl Strategy<Value = Entry> {
    let policy =
        prop_oneof![Just(RefusalPolicy::GiveUp), Just(RefusalPolicy::Wait), Just(RefusalPolicy::Override)];
    let window = proptest::option::weighted(0.3, 0..8_u32);
    let caller = proptest::option::weighted(0.3, 0..60_i64);
    (policy, proptest::option::of((1..400_i64, action())), window, caller)
        .prop_map(|(on_refusal, deadline, window, caller)| Entry { on_refusal, deadline, window, caller })
}

fn action() -> impl Strategy<Value = DeadlineAction> {
    prop_oneof![Just(DeadlineAction::GiveUp), Just(DeadlineAction::Evict), Just(DeadlineAction::Delete)]
}

fn registered() -> impl Strategy<Value = Vec<ResponderEntry>> {
    proptest::collection::vec((0..3_i32, 1..90_i64, 0..200_i64), 0..4).prop_map(|rows| {
        rows.into_iter()
            .enumerate()
            .map(|(i, (priority, timeout, max_delay))| ResponderEntry {
                priority: Some(priority),
                timeout_seconds: Some(timeout),
                max_delay_seconds: Some(max_delay),
                ..ResponderEntry::named(&if i == 0 { "self".to_owned() } else { format!("r.b/{i}") })
            })
            .collect()
    })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![Just(Answer::Accept), Just(Answer::Delay), Just(Answer::Refuse)]
}

fn any_step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        Just(ResponderState::Inactive),
        Just(ResponderState::Active),
        Just(ResponderState::Interrupted),
        Just(ResponderState::Canceled),
        Just(ResponderState::Completed),
    ];
    let end = prop_oneof![
        Just(("Failed", "Refused")),
        Just(("Failed", "DeadlineGaveUp")),
        Just(("Failed", "Canceled")),
        Just(("Evacuated", "Evicted")),
        Just(("Evacuated", "GoneByOther")),
        Just(("Finished", "Evicted")),
        Just(("Blocked", "Refused")),
    ];
    let forge = (
        0..4_usize,
        state,
        proptest::option::of(any::<(bool, bool)>()),
        proptest::option::weighted(0.2, end),
    )
        .prop_map(|(responder, state, eviction, end)| Step::Forge { responder, state, eviction, end });
    prop_oneof![
        4 => (1..60_i64).prop_map(Step::Wait),
        12 => prop_oneof![8 => Just(0_i64), 1 => -3..0_i64, 1 => 1..4_i64].prop_map(|skew| Step::Control { skew }),
        1 => Just(Step::Crash),
        1 => Just(Step::Recover),
        3 => Just(Step::Land),
        3 => Just(Step::Reply),
        6 => (0..4_usize, any_answer(), 1..100_i64)
            .prop_map(|(responder, answer, seconds)| Step::Answer { responder, answer, seconds }),
        1 => (0..4_usize).prop_map(|responder| Step::Acknowledge { responder }),
        2 => (0..3_usize, entry()).prop_map(|(user, entry)| Step::Join { user, entry }),
        1 => (0..3_usize).prop_map(|user| Step::Withdraw { user }),
        1 => prop_oneof![
            Just(Step::Delete), Just(Step::PodGoes), Just(Step::PodTerminates), Just(Step::PodEnds),
            any::<bool>().prop_map(Step::PodStops),
        ],
        1 => proptest::option::of(0..2_i32).prop_map(Step::Budget),
        2 => forge,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_invariants_the_table_and_the_fence_hold(
        entries in proptest::collection::vec(entry(), 1..3),
        registered in registered(),
        steps in proptest::collection::vec(any_step(), 1..80),
    ) {
        let mut sim = Sim::new(&entries, registered);
        for step in steps {
            sim.step(step);
        }
    }

    #[test]
    fn with_a_deadline_every_negotiation_ends_by_it(
        action in action(),
        deadline in 1..300_i64,
        on_refusal in prop_oneof![Just(RefusalPolicy::Wait), Just(RefusalPolicy::Override)],
        window in proptest::option::of(0..8_u32),
        registered in registered(),
        answers in proptest::collection::vec((any_answer(), 1..100_i64), 1..10),
    ) {
        let entry = Entry { on_refusal, deadline: Some((deadline, action)), window, caller: None };
        let mut sim = Sim::new(&[entry], registered);
        // No budget ever lets it go: the negotiation must end all the same.
        sim.budget = Some(0);
        let mut answers = answers.into_iter().cycle();
        while matches!(phase(&sim.evacuation), Phase::Pending | Phase::Asking) {
            prop_assert!(sim.now <= deadline, "still {:?} at {}", phase(&sim.evacuation), sim.now);
            // Everyone answers whenever the controller has nothing left to do, and never accepts.
            let active = sim.status().responders.iter().flatten().position(|r| r.state == ResponderState::Active);
            if let (Some(active), Some((given, seconds))) = (active, answers.next())
                && given != Answer::Accept
            {
                sim.step(Step::Answer { responder: active, answer: given, seconds });
            }
            // The controller looks only when it changed something or asked to be woken.
            let wake = (0..10)
                .find_map(|_| match sim.control(0) {
                    Look::Acted => None,
                    Look::Rests(wake) => Some(wake),
                })
                .expect("it comes to rest");
            if !matches!(phase(&sim.evacuation), Phase::Pending | Phase::Asking) {
                break;
            }
            let wake = wake.expect("it asks to be woken");
            prop_assert!(wake > at(sim.now), "it asks to be woken now, and has nothing to do");
            sim.now = (wake - at(0)).num_seconds();
        }
    }

    #[test]
    fn an_eviction_that_nothing_holds_back_always_ends_with_the_pod_gone(
        registered in registered(),
        window in proptest::option::of(0..3_u32),
        caller in proptest::option::of(0..120_i64),
        crashes in proptest::collection::vec(any::<bool>(), 0..6),
        lost in proptest::collection::vec(any::<bool>(), 0..6),
    ) {
        // A caller that is left the pod and does not come back delays the end, and does not prevent it.
        let on_refusal = if caller.is_some() { RefusalPolicy::Wait } else { RefusalPolicy::Override };
        let entry = Entry { on_refusal, deadline: None, window, caller };
        let mut sim = Sim::new(&[entry], registered);
        let (mut crashes, mut lost) = (crashes.into_iter(), lost.into_iter());
        for _ in 0..200 {
            if is_finished(sim.status()) {
                break;
            }
            let look = sim.control(0);
            if crashes.next().unwrap_or_default() {
                sim.step(Step::Crash);
            }
            if lost.next().unwrap_or_default() {
                sim.under_way = None;
                sim.step(Step::Crash);
            }
            sim.step(Step::Land);
            sim.step(Step::Reply);
            let leaves = matches!(&sim.pod, PodView::Live(p) if p.terminating_until.is_some_and(|t| t <= at(sim.now)));
            if leaves {
                sim.pod = PodView::Gone;
            } else if let Look::Rests(wake) = look {
                let wake = wake.map_or(sim.now + 1, |wake| (wake - at(0)).num_seconds());
                sim.now = wake.clamp(sim.now + 1, sim.now + 60);
            }
        }
        prop_assert_eq!(phase(&sim.evacuation), Phase::Evacuated);
        prop_assert!(sim.status().conditions.iter().any(|c| c.reason == "Evicted"));
    }
}
