//! Volumes that cannot be attached: the Events of replacements that have a node and do not start.
//!
//! The attach/detach controller tells it in an Event and in no field of the pod. The Events of a pod are
//! listed only when the pod has a node, a budget waits for the pod, and it has not started for a while.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::from_condition_time;
use evacuation_protocol::{AttachFailure, volume_in};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, Client, api::ListParams};
use machinery_watch::{Projected, Projection};
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::cluster::{CallError, Cluster, Lister, ObjectKey, lock};

/// Time after its scheduling at which a pod that has not started is looked at.
const LATE: TimeDelta = TimeDelta::seconds(15);
/// Pause before the Events of a pod are listed again.
const PAUSE: Duration = Duration::from_secs(15);
/// Time after its last read for which a failure is kept. The API server drops an Event after an hour, and the
/// attach/detach controller tells a Multi-Attach error once.
const KEPT: Duration = Duration::from_mins(5);
/// Maximum time of a read. All pods of a drain wait for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of pods of one drain that are looked at in one round.
const MOST: usize = 4;
/// Maximum number of Events of one pod that are read.
const MOST_EVENTS: u32 = 100;
/// Reason of the Events that tell a failure.
const FAILED: &str = "FailedAttachVolume";
/// Reason of the Event that tells that a volume was attached after all.
const SUCCEEDED: &str = "SuccessfulAttachVolume";
/// Maximum size of a message in bytes. Kubernetes' own are shorter.
const MAX_MESSAGE: usize = 4096;

/// The part of an Event that tells of a volume.
enum Attachment {}

impl Projection<Event> for Attachment {
    fn project(event: &mut Event) {
        let whole = std::mem::take(event);
        event.metadata.creation_timestamp = whole.metadata.creation_timestamp;
        event.reason = whole.reason;
        event.message = whole.message.filter(|message| message.len() <= MAX_MESSAGE);
        event.first_timestamp = whole.first_timestamp;
        event.last_timestamp = whole.last_timestamp;
    }
}

/// Reader of the Events of pods.
pub(super) struct Volumes {
    client: Client,
    lister: Arc<Lister>,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    failure: Option<AttachFailure>,
    until: Instant,
}

impl Volumes {
    /// Returns a reader that knows nothing yet.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let lister = Arc::clone(&cluster.lister);
        Self { client: cluster.client.clone(), lister, known: Mutex::default() }
    }

    /// Returns the volumes that cannot be attached for some of the pods. A failure to read counts as none:
    /// the verdict then names the budget only.
    pub(super) async fn failures(
        &self,
        pods: impl Iterator<Item = &Arc<Pod>>,
        now: DateTime<Utc>,
    ) -> Vec<AttachFailure> {
        let late: BTreeMap<&str, &Arc<Pod>> = pods
            .filter(|pod| is_late(pod, now))
            .filter_map(|pod| Some((pod.metadata.uid.as_deref()?, pod)))
            .collect();
        let known = {
            let mut known = lock(&self.known);
            known.retain(|_, known| Instant::now() < known.until + KEPT);
            known.clone()
        };
        let before = |uid: &str| known.get(uid).and_then(|known| known.failure.clone());
        // Those that were never looked at first, then those whose look is the oldest.
        let mut stale: Vec<_> =
            late.iter().map(|(uid, pod)| (known.get(*uid).map(|k| k.until), *uid, *pod)).collect();
        stale.retain(|(until, _, _)| until.is_none_or(|until| until <= Instant::now()));
        stale.sort_by_key(|(until, _, _)| *until);
        let reads = stale.into_iter().take(MOST).map(|(_, uid, pod)| self.read(uid, pod, before(uid), now));
        join_all(reads).await;
        let known = lock(&self.known);
        late.keys().filter_map(|uid| known.get(*uid)?.failure.clone()).collect()
    }

    async fn read(&self, uid: &str, pod: &Pod, before: Option<AttachFailure>, now: DateTime<Utc>) {
        let key = ObjectKey::of(pod);
        let failure = match self.list(&key, uid).await {
            Ok(events) => failure(&events, uid, before, now),
            Err(error) => {
                debug!(pod = %key, error = &error as &dyn Error, "its events are not known");
                before
            }
        };
        let known = Known { failure, until: Instant::now() + PAUSE };
        lock(&self.known).insert(uid.to_owned(), known);
    }

    async fn list(&self, pod: &ObjectKey, uid: &str) -> Result<Vec<Event>, CallError> {
        let api: Api<Projected<Event, Attachment>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let parameters =
            ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(MOST_EVENTS);
        let action = format!("list the events of pod {pod}");
        let keep = |event: Event| [FAILED, SUCCEEDED].contains(&event.reason.as_deref()?).then_some(event);
        let list = timeout(PATIENCE, self.lister.list_with(action, &api, parameters, keep));
        list.await.unwrap_or_else(|_| Ok(Vec::new()))
    }
}

/// Returns true for a pod that has had a node for a while and has not started.
fn is_late(pod: &Pod, now: DateTime<Utc>) -> bool {
    let status = pod.status.as_ref();
    let pending = status.and_then(|status| status.phase.as_deref()) == Some("Pending");
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let scheduled =
        conditions.into_iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "True");
    let since = scheduled.and_then(|scheduled| scheduled.last_transition_time.as_ref());
    pending && since.is_some_and(|since| now - from_condition_time(since) >= LATE)
}

/// Returns the last failure after which its volume was not attached, or else the one that was known `before`.
fn failure(
    events: &[Event],
    pod_uid: &str,
    before: Option<AttachFailure>,
    now: DateTime<Utc>,
) -> Option<AttachFailure> {
    let of =
        |reason: &'static str| events.iter().filter(move |event| event.reason.as_deref() == Some(reason));
    let attached = |volume: Option<&str>, since: Option<DateTime<Utc>>| {
        let same = |event: &&Event| volume_in(event.message.as_deref().unwrap_or_default()) == volume;
        of(SUCCEEDED).filter(same).any(|event| last_time(event) >= since)
    };
    let failed =
        |event: &&Event| !attached(volume_in(event.message.as_deref().unwrap_or_default()), last_time(event));
    let last = of(FAILED).filter(failed).max_by_key(|event| last_time(event));
    let Some(event) = last else {
        return before.filter(|known| !attached(known.volume(), Some(known.since)));
    };
    let since = first_time(event).unwrap_or(now);
    let since = before.as_ref().map_or(since, |known| known.since.min(since));
    let message = event.message.clone().unwrap_or_default();
    Some(AttachFailure { pod_uid: pod_uid.to_owned(), message, since })
}

fn first_time(event: &Event) -> Option<DateTime<Utc>> {
    let first = event.first_timestamp.as_ref().map(from_condition_time);
    first.or_else(|| event.metadata.creation_timestamp.as_ref().map(from_condition_time))
}

fn last_time(event: &Event) -> Option<DateTime<Utc>> {
    event.last_timestamp.as_ref().map(from_condition_time).or_else(|| first_time(event))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    #[test]
    fn only_a_pod_that_has_had_a_node_for_a_while_and_has_not_started_is_looked_at() {
        for (phase, scheduled, second, expected) in [
            ("Pending", "True", 15, true),
            ("Pending", "True", 14, false),
            ("Pending", "False", 15, false),
            ("Running", "True", 15, false),
        ] {
            let condition = json!({"type": "PodScheduled", "status": scheduled, "lastTransitionTime": at(0).to_rfc3339()});
            let pod = json!({"metadata": {}, "status": {"phase": phase, "conditions": [condition]}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(is_late(&pod, at(second)), expected, "{phase} {scheduled} {second}");
        }
    }

    #[test]
    fn a_failure_lasts_until_its_volume_is_attached_also_when_its_event_has_expired() {
        let event = |reason: &str, volume: &str, first: i64, last: i64| -> Event {
            serde_json::from_value(json!({
                "metadata": {}, "involvedObject": {}, "reason": reason,
                "message": format!("AttachVolume for volume \"{volume}\" was tried"),
                "firstTimestamp": at(first).to_rfc3339(), "lastTimestamp": at(last).to_rfc3339(),
            }))
            .unwrap()
        };
        let known = |events: &[Event], before: Option<AttachFailure>| {
            let found = failure(events, "u", before, at(1000))?;
            Some((found.volume().unwrap().to_owned(), found.since))
        };
        let (failed, other) = (event(FAILED, "a", 1, 5), event(FAILED, "b", 2, 3));
        assert_eq!(known(&[], None), None);
        assert_eq!(known(&[failed.clone(), other.clone()], None), Some(("a".to_owned(), at(1))));
        let attached = event(SUCCEEDED, "a", 6, 6);
        let both = [failed.clone(), other, attached.clone()];
        assert_eq!(known(&both, None), Some(("b".to_owned(), at(2))), "a is attached");
        assert_eq!(
            known(&[event(SUCCEEDED, "a", 4, 4), failed.clone()], None),
            Some(("a".to_owned(), at(1)))
        );

        let before = failure(&[failed], "u", None, at(1000));
        assert_eq!(known(&[], before.clone()), Some(("a".to_owned(), at(1))), "the event has expired");
        assert_eq!(known(&[attached], before), None);
    }
}
