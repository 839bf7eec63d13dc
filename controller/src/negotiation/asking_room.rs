//! Room to ask: of the pods of one budget only as many are asked at a time as it allows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus};
use evacuation_protocol::{Act, LivePod, PodView, World, decide, is_finished, may_have_stopped};
use k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;

use crate::cluster::{Change, Cluster, ClusterEvent, ObjectKey, View, WorkQueue, lock};

/// Time that the counts for an Evacuation may take without a rest after them. One of a namespace of some
/// hundred pods takes less.
const FREE: Duration = Duration::from_millis(1);
/// Rest of a namespace after a count, as a multiple of the time that it took: counts of one namespace take a
/// twentieth of the time.
const REST: u32 = 20;

/// The Evacuations that wait for room in their budgets, and those that have just taken it.
///
/// # Guarantees
///
/// An Evacuation that has taken room counts as asked before its write shows it, so that two workers never
/// take the same room. A rehearsal takes none while a request waits. Every change that can make room wakes
/// one waiting Evacuation, which wakes further ones if there is more. Nothing is kept of a budget for which
/// nobody waits. A namespace whose counts take long rests between them, so that it holds up no other.
pub(super) struct AskingRoom {
    view: Arc<View>,
    queue: Arc<WorkQueue<ObjectKey>>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    rooms: BTreeMap<ObjectKey, Room>,
    /// Ends of the rests of namespaces.
    rests: HashMap<String, Instant>,
}

/// The room of one budget.
#[derive(Default)]
struct Room {
    /// The number of further pods that may be asked; `None` when it has to be counted again.
    left: Option<i64>,
    /// The Evacuations that have taken room.
    granted: BTreeSet<ObjectKey>,
    /// The Evacuations that wait.
    waiting: BTreeSet<ObjectKey>,
}

impl Room {
    /// Has the room counted again, by the first Evacuation that waits. Returns that one.
    fn changed(&mut self) -> Option<ObjectKey> {
        self.left = None;
        self.waiting.first().cloned()
    }
}

impl AskingRoom {
    /// Returns an empty table that wakes Evacuations through `queue`.
    pub(super) fn new(cluster: &Cluster, queue: Arc<WorkQueue<ObjectKey>>) -> Self {
        Self { view: Arc::clone(&cluster.view), queue, table: Mutex::default() }
    }

    /// Takes room for an Evacuation that is about to ask its pod. Names the budget without room in the world
    /// that is returned. The Evacuation is woken when that may have changed.
    ///
    /// Also returns the time at which the Evacuation has to try again, if its namespace rests: nothing wakes
    /// it then.
    pub(super) fn take(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
        world: World,
        now: DateTime<Utc>,
    ) -> (World, Option<Instant>) {
        if world.budgets.is_empty() || !begins_to_ask(evacuation, &world, now) {
            self.leave(key);
            return (world, None);
        }
        let budgets: Vec<ObjectKey> = world
            .budgets
            .iter()
            .map(|budget| ObjectKey::new(key.namespace.clone(), budget.name.clone()))
            .collect();
        let is_ready = matches!(&world.pod, PodView::Live(pod) if pod.ready);
        let mut table = lock(&self.table);
        let Table { rooms, rests } = &mut *table;
        let (mut woken, mut spent) = (Vec::new(), Duration::ZERO);
        for (place, budget) in budgets.iter().enumerate() {
            let room = rooms.entry(budget.clone()).or_default();
            if room.granted.contains(key) {
                continue;
            }
            let never = is_ready && world.budgets.get(place).is_some_and(|view| view.state.never_has_room());
            let left = if never { Ok(0) } else { self.left(budget, room, rests, &mut spent) };
            let before = self.request_before(evacuation, room).filter(|_| left.is_ok_and(|left| left > 0));
            if left.is_ok_and(|left| left > 0) && before.is_none() {
                continue;
            }
            room.waiting.insert(key.clone());
            woken.extend(before);
            // It takes no room of the budgets before this one: the next in their lines may.
            for earlier in budgets.iter().take(place) {
                let Some(room) = rooms.get_mut(earlier) else { continue };
                if room.waiting.remove(key) {
                    woken.extend(room.waiting.first().cloned());
                }
            }
            drop(table);
            self.queue.add_all(woken);
            return (World { no_room: Some(budget.name.clone()), ..world }, left.err());
        }
        for budget in &budgets {
            let Some(room) = rooms.get_mut(budget) else { continue };
            room.waiting.remove(key);
            if room.granted.insert(key.clone())
                && let Some(left) = &mut room.left
            {
                *left = left.saturating_sub(1);
                let more = usize::try_from(*left).unwrap_or_default();
                woken.extend(room.waiting.iter().take(more).cloned());
            }
        }
        drop(table);
        self.queue.add_all(woken);
        (world, None)
    }

    /// Returns the room of a budget, which is counted if it has to be. `Err` with the end of the rest that
    /// its namespace takes. `spent` is the time of all counts for one Evacuation: a pod can be in thousands
    /// of budgets.
    fn left(
        &self,
        budget: &ObjectKey,
        room: &mut Room,
        rests: &mut HashMap<String, Instant>,
        spent: &mut Duration,
    ) -> Result<i64, Instant> {
        if let Some(left) = room.left {
            return Ok(left);
        }
        let now = Instant::now();
        rests.retain(|_, end| *end > now);
        if let Some(end) = rests.get(&budget.namespace) {
            return Err(*end);
        }
        // The wait for the index is the doing of others, and no reason for a rest.
        let index = self.view.index();
        let began = Instant::now();
        let left = index.asking_room(budget, &room.granted);
        room.left = Some(left);
        *spent += began.elapsed();
        if *spent > FREE {
            rests.insert(budget.namespace.clone(), Instant::now() + *spent * REST);
        }
        Ok(left)
    }

    /// Returns a waiting request that comes before a rehearsal: repeated rehearsals would otherwise keep a
    /// drain waiting.
    fn request_before(&self, evacuation: &Evacuation, room: &Room) -> Option<ObjectKey> {
        if !evacuation.spec.rehearsal || room.waiting.is_empty() {
            return None;
        }
        let index = self.view.index();
        let is_request = |key: &&ObjectKey| index.evacuation(key).is_some_and(|known| !known.spec.rehearsal);
        room.waiting.iter().find(is_request).cloned()
    }

    /// Takes in an event after which a budget may have room.
    pub(super) fn observe(&self, event: &ClusterEvent<'_>) {
        let (namespace, pods) = match event {
            ClusterEvent::Pod(change) if serving(change.old.as_deref()) != serving(change.new.as_deref()) => {
                (&change.key.namespace, [&change.old, &change.new].map(Option::as_deref))
            }
            ClusterEvent::Evacuation(change) if stopped(change) => (&change.key.namespace, [None, None]),
            ClusterEvent::Budget(change) => (&change.key.namespace, [None, None]),
            _ => return,
        };
        let mut woken = Vec::new();
        let mut table = lock(&self.table);
        let index = self.view.index();
        for (budget, room) in of_namespace(&mut table.rooms, namespace) {
            let mut known = pods.iter().copied().flatten().peekable();
            if known.peek().is_none() || known.any(|pod| index.is_selected(budget, pod)) {
                woken.extend(room.changed());
            }
        }
        drop((index, table));
        self.queue.add_all(woken);
    }

    /// Forgets an Evacuation that is asked by now, or is not to be asked.
    pub(super) fn leave(&self, key: &ObjectKey) {
        let mut woken = Vec::new();
        let mut table = lock(&self.table);
        let mut empty = Vec::new();
        for (budget, room) in of_namespace(&mut table.rooms, &key.namespace) {
            let was_there = room.granted.remove(key) | room.waiting.remove(key);
            if was_there {
                woken.extend(room.changed());
            }
            if room.granted.is_empty() && room.waiting.is_empty() {
                empty.push(budget.clone());
            }
        }
        for budget in empty {
            table.rooms.remove(&budget);
        }
        drop(table);
        self.queue.add_all(woken);
    }

    /// Returns the number of Evacuations that wait for room.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.table).rooms.values().map(|room| room.waiting.len()).sum()
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *lock(&self.table) = Table::default();
    }
}

fn of_namespace<'a>(
    rooms: &'a mut BTreeMap<ObjectKey, Room>,
    namespace: &str,
) -> impl Iterator<Item = (&'a ObjectKey, &'a mut Room)> {
    let namespace = namespace.to_owned();
    rooms
        .range_mut(ObjectKey::new(namespace.clone(), "")..)
        .take_while(move |(key, _)| key.namespace == namespace)
}

/// Returns true when the next write would be the first after which the pod may stop its work.
fn begins_to_ask(evacuation: &Evacuation, world: &World, now: DateTime<Utc>) -> bool {
    let stopped = |status: &EvacuationStatus| may_have_stopped(status);
    let decision = decide(evacuation, world, now);
    !evacuation.status.as_ref().is_some_and(stopped)
        && decision.acts.iter().any(|act| matches!(act, Act::WriteStatus(status) if stopped(status)))
}

/// The part of a pod by which it counts for its budgets.
fn serving(pod: Option<&Pod>) -> impl PartialEq + '_ {
    pod.map(|pod| {
        let view = LivePod::of(pod);
        (view.ready, view.terminating_until.is_some(), view.phase, &pod.metadata.labels, &pod.metadata.uid)
    })
}

/// Returns true when a change of an Evacuation shows that its pod was asked, or is left alone.
fn stopped(change: &Change<Evacuation>) -> bool {
    let part = |evacuation: Option<&Evacuation>| {
        let status = evacuation.and_then(|evacuation| evacuation.status.as_ref());
        status.map(|status| (may_have_stopped(status), is_finished(status)))
    };
    part(change.old.as_deref()) != part(change.new.as_deref())
}

#[cfg(test)]
mod tests;
