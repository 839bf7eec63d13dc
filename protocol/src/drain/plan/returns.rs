//! Pods that come to a node after its drain began.
//!
//! A replacement that tolerates the cordon, or whose owner names the node, is back a moment after its
//! predecessor went. Asking it at once would evict it for ever, several times a second. So the late pods of
//! one owner are asked in rounds: a round is recorded first, has the pods that are there then, and a pause
//! that grows follows it. Pods that have ended are deleted in the same rounds: a kubelet can reject each pod
//! of an owner at once. In a namespace the owners beyond the first few share their rounds: else a
//! controller that makes a new owner for each pod would escape the pauses.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{DrainedNode, MAX_RETURNED_PODS, ReturnedOwner};
use k8s_openapi::api::core::v1::Pod;

use super::counts::record_of;
use crate::{
    drain::verdict::{ROUNDS, Returned, owner},
    pod::controller,
    time::{after, stamp},
};

/// Pause after each of the first rounds, in seconds: the pods of one owner need not come all at once.
const PAUSE_SECONDS: i64 = 10;
/// The pause after [`ROUNDS`] rounds, in seconds. It doubles with each further one.
const GROWING_SECONDS: i64 = 30;
/// Number of characters of a controller's UID that are compared.
const UID: usize = 64;
/// Longest pause, in seconds.
const LONGEST_SECONDS: i64 = 600;
/// Owners of a namespace with rounds of their own on a node. The others share those of the namespace's pods
/// without a controller.
pub(super) const OWN_ROUNDS: usize = 8;

/// The turn of a pod that came after the drain of its node began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is in the round that is recorded.
    Now,
    /// A round that it is in can begin.
    Next,
    /// No round begins before a time.
    At(Returned),
}

/// Returns the turn of a late pod.
pub(super) fn turn(node: &DrainedNode, pod: &Pod, now: DateTime<Utc>) -> Turn {
    let key = Own::of(&node.returned).key(pod);
    let Some(known) = node.returned.iter().find(|known| key_of(known) == key) else { return Turn::Next };
    let in_round = record_of(pod).is_some_and(|uid| known.pods.iter().any(|recorded| recorded == uid));
    match next_round(known) {
        _ if in_round => Turn::Now,
        until if until <= now => Turn::Next,
        until => {
            let shared = key.1 != uid(pod);
            Turn::At(Returned { rounds: known.rounds, since: known.last_round_time.0, until, shared })
        }
    }
}

/// Records the rounds that begin, of the late pods whose turn is [`Turn::Next`]. `waiting` has the pods of
/// the node that were not asked: one of the last round is in the next one, too. The node has at most `room`
/// records: without room, the oldest record of an owner that has no pod there, and whose pause is over, gives
/// way.
pub(super) fn begin_rounds<'p>(
    node: &mut DrainedNode,
    pods: impl IntoIterator<Item = &'p Pod>,
    waiting: &BTreeSet<&str>,
    room: usize,
    now: DateTime<Utc>,
) {
    let by_key = by_key(&node.returned, pods);
    let keys: BTreeSet<Key<'p>> = by_key.keys().copied().collect();
    for (key, pods) in by_key {
        let place = node.returned.iter().position(|known| key_of(known) == key);
        let known = place.and_then(|place| node.returned.get(place));
        if known.is_some_and(|known| next_round(known) > now) {
            continue;
        }
        let (rounds, mut in_round) = known.map_or((0, Vec::new()), |it| (it.rounds, it.pods.clone()));
        in_round.retain(|uid| waiting.contains(uid.as_str()));
        let stay = in_round.len();
        in_round.extend(pods.iter().filter_map(|pod| record_of(pod)).map(str::to_owned));
        in_round.truncate(MAX_RETURNED_PODS);
        if in_round.len() == stay {
            continue;
        }
        let is_over = |known: &&ReturnedOwner| next_round(known) <= now && !keys.contains(&key_of(known));
        let gives_way = || {
            let oldest = node.returned.iter().filter(is_over).min_by_key(|known| known.last_round_time)?;
            node.returned.iter().position(|known| known == oldest)
        };
        match place {
            None if node.returned.len() < room => {}
            None => match gives_way() {
                Some(oldest) => drop(node.returned.remove(oldest)),
                None => continue,
            },
            Some(place) => drop(node.returned.remove(place)),
        }
        node.returned.push(ReturnedOwner {
            namespace: key.0.to_owned(),
            owner: key.1.and_then(|_| owner(pods.first()?)),
            uid: key.1.map(str::to_owned),
            rounds: rounds.saturating_add(1),
            last_round_time: stamp(now),
            pods: in_round,
        });
    }
}

/// Returns the late pods by the keys of their records, those of new owners with keys of their own while there
/// are few.
fn by_key<'p>(
    returned: &[ReturnedOwner],
    pods: impl IntoIterator<Item = &'p Pod>,
) -> BTreeMap<Key<'p>, Vec<&'p Pod>> {
    let mut own = Own::of(returned);
    let mut by_key: BTreeMap<Key<'p>, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let key = own.key(pod);
        own.insert(key);
        by_key.entry(key).or_default().push(pod);
    }
    by_key
}

/// Returns the number of records that these late pods need, beside those that the node has.
pub(super) fn new_records<'p>(node: &DrainedNode, pods: impl IntoIterator<Item = &'p Pod>) -> usize {
    let known = |key: &&Key<'_>| node.returned.iter().any(|known| key_of(known) == **key);
    let by_key = by_key(&node.returned, pods);
    by_key.len() - by_key.keys().filter(known).count()
}

/// Returns the namespaces and UIDs of the records that these late pods have.
pub(super) fn records_of<'p>(
    node: &DrainedNode,
    pods: impl IntoIterator<Item = &'p Pod>,
) -> BTreeSet<(String, Option<String>)> {
    let keys = by_key(&node.returned, pods).into_keys();
    keys.map(|(namespace, uid)| (namespace.to_owned(), uid.map(str::to_owned))).collect()
}

/// Drops the oldest records of nodes, at most so many: of owners whose pause is over, and that are not in
/// `used`, by the names of their nodes. Other nodes need their places.
pub(super) fn make_room<'n>(
    nodes: impl Iterator<Item = &'n mut DrainedNode>,
    used: &BTreeMap<String, BTreeSet<(String, Option<String>)>>,
    mut number: usize,
    now: DateTime<Utc>,
) {
    let mut nodes: Vec<&mut DrainedNode> = nodes.collect();
    while number > 0 {
        let is_used = |node: &DrainedNode, known: &ReturnedOwner| {
            let key = (known.namespace.clone(), known.uid.clone());
            used.get(&node.name).is_some_and(|used| used.contains(&key))
        };
        let all = nodes.iter().enumerate().flat_map(|(at, node)| {
            let idle = node.returned.iter().enumerate();
            let idle = idle.filter(|(_, known)| next_round(known) <= now && !is_used(node, known));
            idle.map(move |(place, known)| (known.last_round_time, at, place))
        });
        let Some((_, at, place)) = all.min() else { return };
        if let Some(node) = nodes.get_mut(at) {
            node.returned.remove(place);
        }
        number -= 1;
    }
}

/// Returns the time before which no further round of an owner begins.
fn next_round(known: &ReturnedOwner) -> DateTime<Utc> {
    let doubled = u32::try_from(known.rounds.saturating_sub(ROUNDS)).ok();
    let growing = doubled.map(|times| GROWING_SECONDS.saturating_mul(1 << times.min(16)));
    after(known.last_round_time.0, growing.unwrap_or(PAUSE_SECONDS).min(LONGEST_SECONDS))
}

/// Key of a record: the namespace, and the UID of the owner. Without the UID it is the record that the pods
/// without a controller share, whatever their names are, and the owners without a record of their own.
type Key<'k> = (&'k str, Option<&'k str>);

/// The namespaces and UIDs of the owners that have a record of their own.
struct Own<'n>(BTreeSet<(&'n str, &'n str)>);

impl<'n> Own<'n> {
    fn of(returned: &'n [ReturnedOwner]) -> Self {
        let own = returned.iter().filter_map(|known| Some((known.namespace.as_str(), known.uid.as_deref()?)));
        Self(own.collect())
    }

    fn insert(&mut self, (namespace, uid): Key<'n>) {
        self.0.extend(uid.map(|uid| (namespace, uid)));
    }

    /// Returns the key of a pod's record.
    fn key<'p>(&self, pod: &'p Pod) -> Key<'p> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let has_own = |uid: &&str| {
            let of_namespace = self.0.range((namespace, "")..).take_while(|(of, _)| *of == namespace);
            self.0.contains(&(namespace, uid)) || of_namespace.count() < OWN_ROUNDS
        };
        (namespace, uid(pod).filter(has_own))
    }
}

fn key_of(known: &ReturnedOwner) -> Key<'_> {
    (&known.namespace, known.uid.as_deref())
}

/// Returns the UID of a pod's controller. The pod's author chooses its length.
fn uid(pod: &Pod) -> Option<&str> {
    let uid = controller(pod)?.uid.as_str();
    Some(uid.get(..uid.floor_char_boundary(UID)).unwrap_or(uid))
}
