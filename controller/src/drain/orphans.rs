//! Entries of drains that no longer exist.
//!
//! A drain takes its entries back before it ends. Two things leave entries behind: an admin who removes the
//! finalizer, and a request of an earlier leader that the API carries out late. No eviction may follow from
//! either, so such entries are taken back whenever the view shows one.

use std::{collections::BTreeSet, sync::Arc};

use evacuation_api::{DRAIN_ENTRY_PREFIX, Evacuation, NodeEvacuation};
use kube::{Api, Client, ResourceExt};
use tracing::info;

use super::requests::Requests;
use crate::cluster::{CallError, Index, ObjectKey, View, call, is_finished};

/// Finds and withdraws entries whose drain is gone.
pub(super) struct Orphans {
    client: Client,
    view: Arc<View>,
}

impl Orphans {
    /// Returns the finder.
    pub(super) fn new(client: Client, view: Arc<View>) -> Self {
        Self { client, view }
    }

    /// Returns the drains that entries of an active Evacuation name and that the view does not show.
    pub(super) fn suspects(&self, evacuation: &Evacuation) -> BTreeSet<ObjectKey> {
        if is_finished(evacuation) || is_accepted(evacuation) {
            return BTreeSet::new();
        }
        let index = self.view.index();
        let entries = made_for_others(evacuation).filter(|entry| !is_known(&index, entry));
        entries.filter_map(NodeEvacuation::name_in_entry).map(|name| ObjectKey::new("", name)).collect()
    }

    /// Withdraws the entries that name the drain of that key, and whose drain is gone. A live read confirms
    /// that, because the view can lag behind.
    ///
    /// # Errors
    ///
    /// The first failure. It does not keep the other entries from being withdrawn.
    pub(super) async fn withdraw(&self, key: &ObjectKey, requests: &Requests) -> Result<(), CallError> {
        let suspects: Vec<(Arc<Evacuation>, String)> = {
            let index = self.view.index();
            // No requester can withdraw once the API accepted the eviction.
            let open = |evacuation: &Evacuation| !is_finished(evacuation) && !is_accepted(evacuation);
            let all = index.evacuations().filter(|(_, evacuation)| open(evacuation));
            let of = |(_, evacuation): (&ObjectKey, &Arc<Evacuation>)| {
                let named = |entry: &&str| NodeEvacuation::name_in_entry(entry) == Some(key.name.as_str());
                let left = made_for_others(evacuation).filter(named).find(|entry| !is_known(&index, entry));
                left.map(|entry| (Arc::clone(evacuation), entry.to_owned()))
            };
            all.filter_map(of).collect()
        };
        if suspects.is_empty() {
            return Ok(());
        }
        let api: Api<NodeEvacuation> = Api::all(self.client.clone());
        let live = call(format!("read nodeevacuation {key}"), api.get_opt(&key.name)).await?;
        let lives = live.as_ref().and_then(NodeEvacuation::entry_name);
        let mut failure = None;
        for (evacuation, entry) in suspects.iter().filter(|(_, entry)| Some(entry) != lives.as_ref()) {
            match requests.remove_entry(evacuation, entry).await {
                Ok(true) => info!(evacuation = evacuation.name_any(), entry, "withdrawn: its drain is gone"),
                Ok(false) => {}
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The entries of drains that another user than their owner made: the controller, for the user who drains.
fn made_for_others(evacuation: &Evacuation) -> impl Iterator<Item = &str> {
    let recorded = evacuation.status.iter().flat_map(|status| &status.requesters);
    recorded
        .filter(|entry| entry.left_time.is_none() && entry.user != entry.owner)
        .filter(|entry| entry.name.starts_with(DRAIN_ENTRY_PREFIX))
        .map(|entry| entry.name.as_str())
}

fn is_accepted(evacuation: &Evacuation) -> bool {
    let eviction = evacuation.status.as_ref().and_then(|status| status.eviction.as_ref());
    eviction.is_some_and(|eviction| eviction.accepted)
}

fn is_known(index: &Index, entry: &str) -> bool {
    known_drain(index, entry).is_some()
}

/// Returns the drain in the view that made the entry.
pub(super) fn known_drain(index: &Index, entry: &str) -> Option<Arc<NodeEvacuation>> {
    let drain = index.drain(&ObjectKey::new("", NodeEvacuation::name_in_entry(entry)?))?;
    (drain.entry_name().as_deref() == Some(entry)).then_some(drain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{
        Leadership, lock,
        testing::{cluster_with_api, cluster_without_api, last, not_found},
    };

    fn evacuation(user: &str, left: bool) -> Evacuation {
        let entry = "drain.evacuation.dev/node-a-12345678";
        let time = "2026-11-22T00:00:00Z";
        let left = left.then_some(time);
        serde_json::from_value(json!({
            "metadata": {"name": "e", "namespace": "ns"},
            "spec": {"target": {"pod": {"name": "p", "uid": "p"}}, "requesters": []},
            "status": {"requesters": [
                {"owner": "ann", "name": entry, "user": user, "time": time, "leftTime": left},
            ]},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn only_entries_that_were_made_for_a_drain_that_is_not_there_are_suspects() {
        let cluster = cluster_without_api();
        let orphans = Orphans::new(cluster.client.clone(), Arc::clone(&cluster.view));
        let named = BTreeSet::from([ObjectKey::new("", "node-a")]);
        assert_eq!(orphans.suspects(&evacuation("controller", false)), named);
        assert_eq!(orphans.suspects(&evacuation("ann", false)), BTreeSet::new(), "the owner made it");
        assert_eq!(orphans.suspects(&evacuation("controller", true)), BTreeSet::new(), "it left");
        for (uid, expected) in [("12345678-1", BTreeSet::new()), ("87654321-1", named)] {
            let drain = json!({"metadata": {"name": "node-a", "uid": uid}, "spec": {"nodes": {}}});
            cluster.view.apply::<NodeEvacuation>(serde_json::from_value(drain).unwrap());
            assert_eq!(orphans.suspects(&evacuation("controller", false)), expected, "{uid}");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a controller that no longer leads, and whose view has stopped
    /// - Act: takes back the entries of a drain that the leader has just begun
    /// - Promise: 12
    #[tokio::test]
    async fn only_a_leader_takes_entries_back() {
        for (leads, expected) in [(true, vec!["GET node-a", "GET e", "PUT e"]), (false, vec!["GET node-a"])] {
            let (mut cluster, asked) =
                cluster_with_api(|request, sent| match (request.method.as_str(), last(request)) {
                    ("PUT", _) => (200, sent),
                    ("GET", "e") => (200, json!(evacuation("controller", false))),
                    _ => not_found(),
                });
            if !leads {
                cluster.leadership = Leadership::standby();
            }
            cluster.view.apply(evacuation("controller", false));
            let orphans = Orphans::new(cluster.client.clone(), Arc::clone(&cluster.view));
            let withdrawn = orphans.withdraw(&ObjectKey::new("", "node-a"), &Requests::new(&cluster)).await;
            assert_eq!(withdrawn.is_err_and(|error| matches!(error, CallError::NotLeading(_))), !leads);
            assert_eq!(*lock(&asked), expected);
        }
    }
}
