//! Caches of the objects that decisions depend on, kept up by watches.

mod evacuations;
mod freshness;
mod groups;
mod interests;
mod outages;
mod projections;
mod responders;
mod watch;

use std::{
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationResponder};
use evacuation_protocol::Outage;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, ReplicaSet, StatefulSet},
    core::v1::{Namespace, Node, Pod, ReplicationController},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        reflector::{ObjectRef, Store, store},
        watcher::Event,
    },
};
use machinery_watch::{Projected, Projection};
use moka::sync::Cache;
use serde::de::DeserializeOwned;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    evacuations::{EvacuationIndex, Records, Written, replaces},
    interests::{Interests, Key, SETTLED},
    outages::Outages,
    projections::Identity,
};
use self::{
    freshness::Freshness,
    groups::{GroupIndex, GroupModes, GroupUnread},
    projections::Kept,
    responders::ResponderIndex,
    watch::{Follower, Synced, follow},
};
use crate::{judge::Mate, namespace::NamespaceFacts};

/// Time for which an Evacuation that this gateway has written is kept: longer than an outage takes to be
/// noticed.
const WRITTEN: Duration = Duration::from_mins(1);
/// Maximum number of them.
const MAX_WRITTEN: u64 = 10_000;
/// Maximum number of pods whose unreadable Evacuations are known.
const MAX_UNREADABLE: u64 = 10_000;

/// The caches. They are filled by watches and answer without waiting.
pub(crate) struct Cluster {
    client: Client,
    pods: Store<Pod>,
    freshness: Arc<Freshness>,
    groups: Arc<RwLock<GroupIndex>>,
    group_modes: GroupModes,
    responders: Arc<RwLock<ResponderIndex>>,
    namespaces: Store<PartialObjectMeta<Namespace>>,
    evacuations: Arc<RwLock<EvacuationIndex>>,
    /// The Evacuations that this gateway has written, by the UIDs of their pods. A watch that breaks in the
    /// same moment does not deliver them.
    written: Cache<String, Written>,
    /// Names of Evacuations that the API server cannot read, by the UIDs of their pods. Lists leave them out,
    /// so a reply to a question tells of them.
    unreadable: Cache<String, String>,
    synced: Vec<(&'static str, Synced)>,
    /// The caches may be stale in an outage.
    outages: Arc<Outages>,
}

impl Cluster {
    /// Starts the watches, which end with `shutdown`.
    pub(crate) fn start(
        client: &Client,
        interests: &Arc<Interests>,
        outages: &Arc<Outages>,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> Arc<Self> {
        let (pods, mut pod_writer) = store();
        let (namespaces, mut namespace_writer) = store();
        let evacuations = Arc::new(RwLock::new(EvacuationIndex::default()));
        let responders = Arc::new(RwLock::new(ResponderIndex::default()));
        let groups = Arc::new(RwLock::new(GroupIndex::default()));
        let members = Arc::clone(&groups);
        let registrations = Arc::clone(&responders);
        let mut synced = Vec::new();
        let mut follower = |name| {
            let known = Synced::default();
            synced.push((name, known.clone()));
            Follower { name, synced: known, shutdown: shutdown.clone() }
        };
        let freshness = Arc::<Freshness>::default();
        let events = Arc::clone(&freshness);
        tasks.spawn(follow(
            follower("watch of pods"),
            Api::<Projected<Pod, Kept>>::all(client.clone()),
            move |event| {
                pod_writer.apply_watcher_event(event);
                members.write().unwrap_or_else(PoisonError::into_inner).take(event);
                // A list begins before the API is asked, and its objects count once it is whole.
                if matches!(event, Event::InitDone | Event::Apply(_) | Event::Delete(_)) {
                    events.note();
                }
            },
        ));
        tasks.spawn(follow(
            follower("watch of evacuationresponders"),
            Api::<Projected<EvacuationResponder, Kept>>::all(client.clone()),
            move |event| registrations.write().unwrap_or_else(PoisonError::into_inner).take(event),
        ));
        tasks.spawn(follow(
            follower("watch of namespaces"),
            Api::<Projected<PartialObjectMeta<Namespace>, Kept>>::all(client.clone()),
            move |event| namespace_writer.apply_watcher_event(event),
        ));
        let index = Arc::clone(&evacuations);
        let changes = Arc::clone(interests);
        let unreadable: Cache<String, String> = Cache::new(MAX_UNREADABLE);
        let known = unreadable.clone();
        tasks.spawn(follow(
            follower("watch of evacuations"),
            Api::<Projected<Evacuation, Kept>>::all(client.clone()),
            move |event| {
                index.write().unwrap_or_else(PoisonError::into_inner).take(event);
                changes.take_evacuation(event);
                if let Event::InitApply(object) | Event::Apply(object) = event
                    && let Some(uid) = object.spec.target.pod.uid.as_deref()
                    && known.get(uid).is_some_and(|name| name == object.name_any())
                {
                    known.invalidate(uid);
                }
            },
        ));
        follow_owners::<ReplicaSet>("watch of replicasets", client, interests, tasks, shutdown);
        follow_owners::<StatefulSet>("watch of statefulsets", client, interests, tasks, shutdown);
        follow_owners::<DaemonSet>("watch of daemonsets", client, interests, tasks, shutdown);
        let name = "watch of replicationcontrollers";
        follow_owners::<ReplicationController>(name, client, interests, tasks, shutdown);
        Arc::new(Self {
            client: client.clone(),
            pods,
            freshness,
            groups,
            group_modes: GroupModes::new(client.clone()),
            responders,
            namespaces,
            evacuations,
            written: Cache::builder().max_capacity(MAX_WRITTEN).time_to_live(WRITTEN).build(),
            unreadable,
            synced,
            outages: Arc::clone(outages),
        })
    }

    /// Returns the names of the watches that have not delivered their first list yet.
    pub(crate) fn not_synced(&self) -> Vec<&'static str> {
        self.synced.iter().filter(|(_, synced)| !synced.is_set()).map(|(name, _)| *name).collect()
    }

    /// Returns the Evacuation of that name from the cache.
    pub(crate) fn evacuation(&self, namespace: &str, name: &str) -> Option<Arc<Evacuation>> {
        self.evacuations.read().unwrap_or_else(PoisonError::into_inner).get(namespace, name)
    }

    /// Returns the pod of that name from the cache.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(&ObjectRef::new(name).within(namespace))
    }

    /// Returns true when the cache of pods is current but for a moment.
    pub(crate) fn has_fresh_pods(&self) -> bool {
        self.freshness.is_fresh()
    }

    /// Reads the pod of that name live.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer.
    pub(crate) async fn read_pod(&self, namespace: &str, name: &str) -> kube::Result<Option<Pod>> {
        Api::<Pod>::namespaced(self.client.clone(), namespace).get_opt(name).await
    }

    /// Reads the node of that name live.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer.
    pub(crate) async fn read_node(&self, name: &str) -> kube::Result<Option<Node>> {
        Api::<Node>::all(self.client.clone()).get_opt(name).await
    }

    /// Returns the facts of a namespace. An unknown one has no labels.
    pub(crate) fn namespace(&self, name: &str) -> NamespaceFacts {
        let found = self.namespaces.get(&ObjectRef::new(name));
        found.map(|namespace| NamespaceFacts::of(&namespace.metadata)).unwrap_or_default()
    }

    /// Returns true when responders are registered for the pod.
    pub(crate) fn is_registered(&self, pod: &Pod) -> bool {
        self.responders.read().unwrap_or_else(PoisonError::into_inner).is_registered(pod)
    }

    /// Returns true when responders are registered for one of the other pods of a PodGroup.
    pub(crate) fn is_any_registered(&self, namespace: &str, group: &[Mate]) -> bool {
        let pods: Vec<&Pod> = group.iter().map(|mate| &*mate.pod).collect();
        self.responders.read().unwrap_or_else(PoisonError::into_inner).is_any_registered(namespace, &pods)
    }

    /// Returns the other pods of the pod's PodGroup that move together with it. A group whose mode is not
    /// known counts as one that does.
    pub(crate) fn mates(&self, pod: &Pod) -> Vec<Mate> {
        if self.group_modes.known(pod) == Some(false) {
            return Vec::new();
        }
        let names = self.groups.read().unwrap_or_else(PoisonError::into_inner).others(pod);
        let namespace = pod.namespace().unwrap_or_default();
        let found = names.iter().filter_map(|name| self.pod(&namespace, name));
        let mate = |pod: Arc<Pod>| {
            let records =
                self.records(&namespace, &pod.name_any(), pod.metadata.uid.as_deref().unwrap_or_default());
            Mate { pod, active: records.active, last: records.last }
        };
        found.map(mate).collect()
    }

    /// Returns true when the mode of the pod's PodGroup is known. A pod without a group has none.
    pub(crate) fn knows_group(&self, pod: &Pod) -> bool {
        self.group_modes.known(pod).is_some()
    }

    /// Reads the mode of the pod's PodGroup.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer.
    pub(crate) async fn read_group(&self, pod: &Pod) -> Result<(), GroupUnread> {
        self.group_modes.read(pod).await
    }

    /// Returns true when an EvacuationResponder of the namespace has that responder's name.
    pub(crate) fn is_served(&self, namespace: &str, responder: &str) -> bool {
        self.responders.read().unwrap_or_else(PoisonError::into_inner).is_served(namespace, responder)
    }

    /// Returns the Evacuations that concern a pod.
    pub(crate) fn records(&self, namespace: &str, pod: &str, uid: &str) -> Records {
        let index = self.evacuations.read().unwrap_or_else(PoisonError::into_inner);
        index.records_with(namespace, pod, uid, || self.written.get(uid))
    }

    /// Reads a known Evacuation live. Returns true when that is its state. Else the cache has the live state
    /// then: a watch can be silent for a while without an error.
    ///
    /// # Errors
    ///
    /// The evacuation API did not answer.
    pub(crate) async fn is_current(&self, known: &Evacuation) -> kube::Result<bool> {
        let namespace = known.namespace().unwrap_or_default();
        let api = Api::<Projected<Evacuation, Kept>>::namespaced(self.client.clone(), &namespace);
        let live = api.get_opt(&known.name_any()).await?.map(Projected::into_inner);
        // A read can be served by a server that lags behind the watch.
        let is_same = live.as_ref().is_some_and(|live| live.uid() == known.uid() && !replaces(live, known));
        if !is_same {
            self.written.invalidate(known.spec.target.pod.uid.as_deref().unwrap_or_default());
            self.evacuations.write().unwrap_or_else(PoisonError::into_inner).correct(known, live);
        }
        Ok(is_same)
    }

    /// Takes in the Evacuation of a pod as the server has stored it for this gateway.
    pub(crate) fn note_written(&self, pod: &str, evacuation: &Evacuation) {
        let mut kept = evacuation.clone();
        Kept::project(&mut kept);
        let written = self.evacuations.read().unwrap_or_else(PoisonError::into_inner).written(kept);
        self.written.insert(pod.to_owned(), written);
        self.unreadable.invalidate(pod);
    }

    /// Takes in that the server cannot read the Evacuation of that name, which is the active one of a pod.
    pub(crate) fn note_unreadable(&self, pod: &str, name: &str) {
        self.unreadable.insert(pod.to_owned(), name.to_owned());
    }

    /// Returns the name of a pod's active Evacuation that the server could not read when it last answered.
    pub(crate) fn unreadable(&self, pod: &str) -> Option<String> {
        self.unreadable.get(pod)
    }

    /// Returns the time by the clock of the API server.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.outages.now()
    }

    /// Returns the outage that lasts at that time, if there is one.
    pub(crate) fn outage(&self, now: DateTime<Utc>) -> Option<Outage> {
        self.outages.current(now)
    }
}

/// Follows a kind of owners. Nothing of them is kept, and the gateway is ready without them: a change only
/// names the Evacuations to look at.
fn follow_owners<K>(
    name: &'static str,
    client: &Client,
    interests: &Arc<Interests>,
    tasks: &TaskTracker,
    shutdown: &CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let follower = Follower { name, synced: Synced::default(), shutdown: shutdown.clone() };
    let interests = Arc::clone(interests);
    let api = Api::<Projected<PartialObjectMeta<K>, Identity>>::all(client.clone());
    tasks.spawn(follow(follower, api, move |event| interests.take_owner(event)));
}
