//! Pods that come to a node after its drain began.
//!
//! A replacement that tolerates the cordon, or whose owner names the node, is back a moment after its
//! predecessor went. Asking it at once would evict it for ever, several times a second. So the late pods of
//! one owner are asked in rounds: a round is recorded first, has the pods that are there then, and a pause
//! that grows follows it. In a namespace the owners beyond the first few share their rounds: else a
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
    let Some(known) = node.returned.iter().find(|known| has_key(known, key)) else { return Turn::Next };
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

/// Records the rounds that begin, of the late pods whose turn is [`Turn::Next`]. `there` has all pods of the
/// node: one of the last round that is still there is in the next one, too. The node has at most `room`
/// records: without room, the record of an owner whose pause is over gives way.
pub(super) fn begin_rounds<'p>(
    node: &mut DrainedNode,
    pods: impl IntoIterator<Item = &'p Pod>,
    there: &BTreeSet<&str>,
    room: usize,
    now: DateTime<Utc>,
) {
    let mut own = Own::of(&node.returned);
    let mut by_key: BTreeMap<Key<'p>, Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        let key = own.key(pod);
        own.insert(key);
        by_key.entry(key).or_default().push(pod);
    }
    for (key, pods) in by_key {
        let known = node.returned.iter().position(|known| has_key(known, key));
        let known = known.map(|place| node.returned.remove(place));
        let (rounds, mut in_round) = known.map_or((0, Vec::new()), |known| (known.rounds, known.pods));
        in_round.retain(|uid| there.contains(uid.as_str()));
        in_round.extend(pods.iter().filter_map(|pod| record_of(pod)).map(str::to_owned));
        in_round.truncate(MAX_RETURNED_PODS);
        if node.returned.len() >= room {
            let over = node.returned.iter().position(|known| next_round(known) <= now);
            let Some(place) = over else { continue };
            node.returned.remove(place);
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

/// Drops the records of owners whose pause is over: those of other nodes need their place.
pub(super) fn make_room(node: &mut DrainedNode, now: DateTime<Utc>) {
    node.returned.retain(|known| next_round(known) > now);
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

fn has_key(known: &ReturnedOwner, (namespace, uid): Key<'_>) -> bool {
    known.namespace == namespace && known.uid.as_deref() == uid
}

/// Returns the UID of a pod's controller. The pod's author chooses its length.
fn uid(pod: &Pod) -> Option<&str> {
    let uid = controller(pod)?.uid.as_str();
    Some(uid.get(..uid.floor_char_boundary(UID)).unwrap_or(uid))
}
