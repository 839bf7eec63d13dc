//! Pods that come to a node after its drain began.
//!
//! A replacement that tolerates the cordon, or whose owner names the node, is back a moment after its
//! predecessor went. Asking it at once would evict it for ever, several times a second. So the late pods of
//! one owner are asked in rounds: a round is recorded first, has the pods that are there then, and a pause
//! that grows follows it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{DrainedNode, MAX_RETURNED_PODS, ReturnedOwner};
use k8s_openapi::api::core::v1::Pod;

use super::counts::record_of;
use crate::{
    drain::verdict::{ROUNDS, owner},
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

/// The turn of a pod that came after the drain of its node began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is in the round that is recorded.
    Now,
    /// A round that it is in can begin.
    Next,
    /// No round begins before that time.
    At {
        time: DateTime<Utc>,
        /// Number of rounds so far.
        rounds: i32,
        /// The time of the last one.
        since: DateTime<Utc>,
    },
}

/// Returns the turn of a late pod.
pub(super) fn turn(node: &DrainedNode, pod: &Pod, now: DateTime<Utc>) -> Turn {
    let Some(known) = node.returned.iter().find(|known| is_of(known, pod)) else { return Turn::Next };
    let in_round = record_of(pod).is_some_and(|uid| known.pods.iter().any(|recorded| recorded == uid));
    match next_round(known) {
        _ if in_round => Turn::Now,
        time if time <= now => Turn::Next,
        time => Turn::At { time, rounds: known.rounds, since: known.last_round_time.0 },
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
    let mut by_owner: BTreeMap<(Option<&str>, Option<&str>), Vec<&Pod>> = BTreeMap::new();
    for pod in pods {
        by_owner.entry((pod.metadata.namespace.as_deref(), uid(pod))).or_default().push(pod);
    }
    for pods in by_owner.into_values() {
        let Some(first) = pods.first() else { continue };
        let known = node.returned.iter().position(|known| is_of(known, first));
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
            namespace: first.metadata.namespace.clone().unwrap_or_default(),
            owner: owner(first),
            uid: uid(first).map(str::to_owned),
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

/// Returns true when that is the owner of a pod. The pods of a namespace that nothing controls have one
/// record, whatever their names are.
fn is_of(known: &ReturnedOwner, pod: &Pod) -> bool {
    pod.metadata.namespace.as_ref() == Some(&known.namespace) && uid(pod) == known.uid.as_deref()
}

/// Returns the UID of a pod's controller. The pod's author chooses its length.
fn uid(pod: &Pod) -> Option<&str> {
    let uid = controller(pod)?.uid.as_str();
    Some(uid.get(..uid.floor_char_boundary(UID)).unwrap_or(uid))
}
