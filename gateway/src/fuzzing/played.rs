//! A played cluster around the judge: one name of a pod, its app, a budget, the server and the controller.
//!
//! Server and controller are the functions of `protocol`, as in the processes.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Answer, Evacuation, EvacuationResponseSpec, EvacuationResponseStatus, EvacuationSpec, EvacuationStatus,
    PodTarget, Requester, ResponderEntry,
};
use evacuation_protocol::{
    Act, Attempt, BudgetState, BudgetView, Editor, EvictionOutcome, LivePod, PodPhase, PodView, World,
    answer, apply_requester_edit, begin, check_requester_edit, check_status_update, decide, fix_responders,
    is_finished, record_eviction,
};

/// The user of the gateway, which holds the verb `override`.
pub(super) const GATEWAY: &str = "the-gateway";
/// Maximum number of steps of the controller in a row.
const STEPS: usize = 16;

/// A pod that runs.
const RUNNING: LivePod =
    LivePod { phase: PodPhase::Running, terminating_until: None, running_container: true, ready: true };

/// The cluster.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) now: DateTime<Utc>,
    /// Number of the pod that has the name now.
    pub(super) pod: u32,
    /// Node of that pod, and the time at which the pod was made. A pod without a place for it has no node.
    pub(super) node: Option<usize>,
    pub(super) made: DateTime<Utc>,
    /// The nodes that are cordoned.
    pub(super) cordoned: [bool; 2],
    /// True when the app is registered as `self`.
    pub(super) registered: bool,
    /// True when the budget allows a disruption.
    pub(super) room: bool,
    /// All Evacuations, oldest first.
    pub(super) stored: Vec<Evacuation>,
    /// Number of Evacuations that were created.
    pub(super) created: usize,
}

impl Played {
    /// Returns the UID of the pod that has the name now.
    pub(super) fn uid(&self) -> String {
        format!("pod-{}", self.pod)
    }

    /// Gives the name to another pod, on a node that takes pods.
    pub(super) fn replace(&mut self) {
        self.pod += 1;
        self.made = self.now;
        let free = |node: &usize| self.cordoned.get(*node) == Some(&false);
        // The same node as before, or another one, by turns.
        let first = usize::from(self.pod / 2 % 2 == 1);
        self.node = [first, 1 - first].into_iter().find(free);
    }

    /// Returns true when a node is drained: it takes no pods.
    pub(super) fn is_cordoned(&self, node: Option<usize>) -> bool {
        node.is_some_and(|node| self.cordoned.get(node) == Some(&true))
    }

    /// Returns the Evacuation of the present pod that has not ended.
    pub(super) fn active(&mut self) -> Option<&mut Evacuation> {
        let uid = self.uid();
        self.stored.iter_mut().find(|e| !is_ended(e) && e.spec.target.pod.uid.as_deref() == Some(&uid))
    }

    /// Writes an entry as the gateway does. An expired one of the same name leaves first.
    pub(super) fn ask(&mut self, entry: Requester, expired: bool) {
        if expired {
            self.remove(&entry);
        }
        let now = self.now;
        if let Some(active) = self.active() {
            let mut spec = active.spec.clone();
            spec.requesters.retain(|known| known.key() != entry.key());
            spec.requesters.push(entry);
            edit(active, &spec, now);
            return;
        }
        let pod = PodTarget { name: "db-0".to_owned(), uid: Some(self.uid()) };
        let spec = EvacuationSpec::new(pod, vec![entry]);
        let mut status = begin(&spec, GATEWAY, &[], now);
        status.node_name = self.node.map(node_name);
        let own = self.registered.then(|| ResponderEntry::named("self"));
        fix_responders(
            &mut status,
            &spec.requesters,
            &RUNNING,
            &own.into_iter().collect::<Vec<_>>().into(),
            false,
            now,
        );
        let mut created = Evacuation::new(&format!("db-0-{}", self.created), spec);
        self.created += 1;
        created.metadata.namespace = Some("shop".to_owned());
        created.metadata.generation = Some(1);
        created.status = Some(status);
        self.stored.push(created);
    }

    /// Deletes the Evacuations of earlier pods that have ended, as after their time.
    pub(super) fn forget(&mut self) {
        let uid = self.uid();
        self.stored.retain(|e| !is_ended(e) || e.spec.target.pod.uid.as_deref() == Some(&uid));
    }

    /// Removes an entry. The last one that leaves cancels the Evacuation. Returns true when it was there.
    pub(super) fn remove(&mut self, entry: &Requester) -> bool {
        let now = self.now;
        let Some(active) = self.active() else { return false };
        let mut spec = active.spec.clone();
        spec.requesters.retain(|known| known.key() != entry.key());
        spec.requesters.len() < active.spec.requesters.len() && edit(active, &spec, now)
    }

    /// Answers as the app. Returns the reply, if the server took the answer.
    pub(super) fn answer(&mut self, said: Answer, seconds: i64) -> Option<EvacuationResponseStatus> {
        let now = self.now;
        let active = self.active()?;
        let response = EvacuationResponseSpec {
            responder: None,
            evacuation_uid: None,
            pod_uid: None,
            answer: Some(said),
            delay_seconds: (said == Answer::Delay).then_some(seconds),
            retry_after_seconds: None,
            reason: None,
            message: None,
            acknowledge_cancellation: false,
        };
        let (status, reply) = answer(active, &response, now).ok()?;
        active.status = Some(status);
        Some(reply)
    }

    /// Lets the controller do what is due. Returns true when it has evicted the pod.
    pub(super) fn control(&mut self) -> bool {
        let (now, room, uid) = (self.now, self.room, self.uid());
        let mut evicted = false;
        let mut recorded = false;
        for at in 0..self.stored.len() {
            for _ in 0..STEPS {
                let Some(object) = self.stored.get_mut(at) else { break };
                let is_there = object.spec.target.pod.uid.as_deref() == Some(&uid) && !evicted;
                let pod = if is_there { PodView::Live(RUNNING) } else { PodView::Replaced };
                let attempt = if recorded { Attempt::Recorded } else { Attempt::Unknown };
                let world = world(pod, room, attempt);
                let decision = decide(object, &world, now);
                match decision.acts.into_iter().next() {
                    Some(Act::WriteStatus(status)) => {
                        recorded = status.eviction.as_ref().is_some_and(|e| e.in_flight);
                        let Ok(written) = check_status_update(object, *status, now) else { break };
                        object.status = Some(written);
                    }
                    Some(Act::Evict { .. }) => {
                        let outcome = if room { EvictionOutcome::Accepted } else { exhausted() };
                        evicted |= room;
                        recorded = false;
                        let status = object.status.clone().unwrap_or_default();
                        let next = record_eviction(&status, &outcome, 0.0, now);
                        let Ok(written) = check_status_update(object, next, now) else { break };
                        object.status = Some(written);
                    }
                    _ => break,
                }
            }
        }
        evicted
    }
}

/// Changes the entries as the server does. Returns false for a change that it refuses.
fn edit(object: &mut Evacuation, spec: &EvacuationSpec, now: DateTime<Utc>) -> bool {
    let editor = Editor { user: GATEWAY, may_override: true, guarded: true };
    let Ok(change) = check_requester_edit(object, spec, editor, now) else { return false };
    let status: EvacuationStatus = apply_requester_edit(object, spec, &change, GATEWAY, &[], now);
    object.spec = spec.clone();
    object.metadata.generation = object.metadata.generation.map(|generation| generation + 1);
    object.status = Some(status);
    true
}

fn world(pod: PodView, room: bool, attempt: Attempt) -> World {
    let budget = BudgetView {
        name: "db".to_owned(),
        disruptions_allowed: i32::from(room),
        current_healthy: 1,
        desired_healthy: i32::from(!room),
        state: BudgetState::Counted,
        always_allow_unhealthy: false,
    };
    World {
        no_room: None,
        group: Vec::new(),
        pod,
        node_silent_since: None,
        budgets: vec![budget],
        turn: room,
        busy: false,
        recovered_at: None,
        asked: None,
        attempt,
    }
}

fn exhausted() -> EvictionOutcome {
    EvictionOutcome::BudgetExhausted {
        retry_after_seconds: None,
        message: "the budget has no room".to_owned(),
        budgets: vec!["db".to_owned()],
    }
}

/// Returns the name of a node.
pub(super) fn node_name(node: usize) -> String {
    format!("node-{node}")
}

/// Returns true when an Evacuation has ended.
fn is_ended(evacuation: &Evacuation) -> bool {
    evacuation.status.as_ref().is_some_and(is_finished)
}

/// Returns the time so many seconds later.
pub(super) fn after(time: DateTime<Utc>, seconds: i64) -> DateTime<Utc> {
    time + TimeDelta::seconds(seconds)
}
