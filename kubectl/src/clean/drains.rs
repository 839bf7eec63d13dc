//! Finished drains. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};
use evacuation_api::{CordonOwner, NodeEvacuation};
use evacuation_protocol::owner_rule;
use kube::ResourceExt;

use super::change::{Change, Request};
use crate::{
    drain_ref::has_ended,
    plain::{plain, short},
};

/// Returns the deletions of the drains that have ended, at least that long ago. The drains of rules are the
/// rules' to delete.
pub(super) fn finished(
    drains: &[NodeEvacuation],
    older_than: Option<Duration>,
    now: DateTime<Utc>,
) -> Vec<Change> {
    let is_old = |drain: &&NodeEvacuation| match (older_than, end(drain)) {
        (None, _) => true,
        (Some(least), Some(end)) => (now - end).to_std().is_ok_and(|age| age >= least),
        (Some(_), None) => false,
    };
    let ended = |drain: &&NodeEvacuation| {
        has_ended(drain) && drain.metadata.deletion_timestamp.is_none() && owner_rule(drain).is_none()
    };
    drains.iter().filter(ended).filter(is_old).map(|drain| deletion(drain, now)).collect()
}

fn end(drain: &NodeEvacuation) -> Option<DateTime<Utc>> {
    drain.status.as_ref()?.finish_time.map(|time| time.0)
}

fn deletion(drain: &NodeEvacuation, now: DateTime<Utc>) -> Change {
    let nodes = drain.status.iter().flat_map(|status| &status.nodes);
    let held = nodes.filter(|node| node.cordoned == CordonOwner::Ours).map(|node| node.name.as_str());
    let held: Vec<_> = held.collect();
    let uncordons = match held.as_slice() {
        [] => String::new(),
        held => format!(", which uncordons {}", held.join(", ")),
    };
    let ended = end(drain).map(|end| format!(" {} ago", short(now - end))).unwrap_or_default();
    let text = format!("delete ({}{ended}){uncordons}", drain.verdict().as_str());
    let request = Request::Delete { drain: drain.name_any(), uid: drain.uid() };
    Change { object: format!("nodeevacuation/{}", drain.name_any()), text: plain(&text), request }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drain(name: &str, ended: bool) -> NodeEvacuation {
        let finished = json!({"type": "Finished", "status": "True", "reason": "Drained",
                              "message": "", "lastTransitionTime": "1970-01-01T01:00:00Z"});
        let conditions = if ended { json!([finished]) } else { json!([]) };
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": "u"}, "spec": {"nodes": {"names": ["a"]}},
            "status": {"conditions": conditions, "verdict": "Drained", "finishTime": "1970-01-01T01:00:00Z",
                       "nodes": [{"name": "a", "phase": "Drained", "cordoned": "Ours"}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_drains_that_ended_long_enough_ago_are_deleted_and_the_uncordon_is_said() {
        let drains = [drain("old", true), drain("running", false)];
        let now = DateTime::from_timestamp(3 * 3600, 0).unwrap();
        let found = finished(&drains, Some(Duration::from_hours(2)), now);
        let told: Vec<_> = found.iter().map(|change| format!("{}: {}", change.object, change.text)).collect();
        assert_eq!(told, ["nodeevacuation/old: delete (Drained 2h ago), which uncordons a"]);
        assert!(finished(&drains, Some(Duration::from_hours(3)), now).is_empty());
        assert_eq!(finished(&drains, None, now).len(), 1);
    }
}
