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

/// Length of the part of a UID that ends an entry's name, with the hyphen before it.
const SUFFIX: usize = 9;

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
        entries.filter_map(drain_name).map(|name| ObjectKey::new("", name)).collect()
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
                let named = |entry: &&str| drain_name(entry) == Some(key.name.as_str());
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

/// Name of the drain that an entry names.
fn drain_name(entry: &str) -> Option<&str> {
    let name = entry.strip_prefix(DRAIN_ENTRY_PREFIX)?;
    let end = name.len().checked_sub(SUFFIX)?;
    let (name, suffix) = (name.get(..end)?, name.get(end..)?);
    suffix.starts_with('-').then_some(name).filter(|name| !name.is_empty())
}

fn is_known(index: &Index, entry: &str) -> bool {
    known_drain(index, entry).is_some()
}

/// Returns the drain in the view that made the entry.
pub(super) fn known_drain(index: &Index, entry: &str) -> Option<Arc<NodeEvacuation>> {
    let drain = index.drain(&ObjectKey::new("", drain_name(entry)?))?;
    (drain.entry_name().as_deref() == Some(entry)).then_some(drain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::testing::cluster_without_api;

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

    #[test]
    fn an_entry_names_its_drain_before_the_part_of_the_uid() {
        for (entry, expected) in [
            ("drain.evacuation.dev/node-a-12345678", Some("node-a")),
            ("drain.evacuation.dev/a-12345678", Some("a")),
            ("drain.evacuation.dev/-12345678", None),
            ("drain.evacuation.dev/short", None),
            ("a.example.com/node-a-12345678", None),
        ] {
            assert_eq!(drain_name(entry), expected, "{entry}");
        }
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
}
