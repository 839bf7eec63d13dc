//! Caches of the objects that decisions depend on, kept up by watches.

mod evacuations;
mod watch;

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use evacuation_api::{Evacuation, EvacuationResponder};
use evacuation_protocol::registered_responders;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store, store},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::evacuations::Records;
use self::{
    evacuations::EvacuationIndex,
    watch::{Follower, Synced, follow},
};
use crate::{namespace::NamespaceFacts, pod::prune};

/// The caches. They are filled by watches and answer without waiting.
pub(crate) struct Cluster {
    client: Client,
    pods: Store<Pod>,
    responders: Store<EvacuationResponder>,
    namespaces: Store<PartialObjectMeta<Namespace>>,
    evacuations: Arc<RwLock<EvacuationIndex>>,
    synced: Vec<(&'static str, Synced)>,
    /// False while the evacuation API does not answer: the caches may be stale then.
    api_answers: AtomicBool,
}

impl Cluster {
    /// Starts the watches, which end with `shutdown`.
    pub(crate) fn start(client: &Client, tasks: &TaskTracker, shutdown: &CancellationToken) -> Arc<Self> {
        let (pods, mut pod_writer) = store();
        let (responders, mut responder_writer) = store();
        let (namespaces, mut namespace_writer) = store();
        let evacuations = Arc::new(RwLock::new(EvacuationIndex::default()));
        let mut synced = Vec::new();
        let mut follower = |name| {
            let known = Synced::default();
            synced.push((name, known.clone()));
            Follower { name, synced: known, shutdown: shutdown.clone() }
        };
        tasks.spawn(follow(
            follower("watch of pods"),
            Api::<Pod>::all(client.clone()),
            prune,
            move |event| pod_writer.apply_watcher_event(event),
        ));
        tasks.spawn(follow(
            follower("watch of evacuationresponders"),
            Api::<EvacuationResponder>::all(client.clone()),
            |object| object.metadata.managed_fields = None,
            move |event| responder_writer.apply_watcher_event(event),
        ));
        tasks.spawn(follow(
            follower("watch of namespaces"),
            Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
            |object| {
                object.metadata.managed_fields = None;
                object.metadata.annotations = None;
            },
            move |event| namespace_writer.apply_watcher_event(event),
        ));
        let index = Arc::clone(&evacuations);
        tasks.spawn(follow(
            follower("watch of evacuations"),
            Api::<Evacuation>::all(client.clone()),
            |object| object.metadata.managed_fields = None,
            move |event| index.write().unwrap_or_else(PoisonError::into_inner).take(event),
        ));
        Arc::new(Self {
            client: client.clone(),
            pods,
            responders,
            namespaces,
            evacuations,
            synced,
            api_answers: AtomicBool::new(true),
        })
    }

    /// Returns the names of the watches that have not delivered their first list yet.
    pub(crate) fn not_synced(&self) -> Vec<&'static str> {
        self.synced.iter().filter(|(_, synced)| !synced.is_set()).map(|(name, _)| *name).collect()
    }

    /// Returns the pod of that name from the cache.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.get(&ObjectRef::new(name).within(namespace))
    }

    /// Reads the pod of that name live.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer.
    pub(crate) async fn read_pod(&self, namespace: &str, name: &str) -> kube::Result<Option<Pod>> {
        Api::<Pod>::namespaced(self.client.clone(), namespace).get_opt(name).await
    }

    /// Returns the facts of a namespace. An unknown one has no labels.
    pub(crate) fn namespace(&self, name: &str) -> NamespaceFacts {
        let found = self.namespaces.get(&ObjectRef::new(name));
        found.map(|namespace| NamespaceFacts::of(&namespace.metadata)).unwrap_or_default()
    }

    /// Returns true when responders are registered for the pod.
    pub(crate) fn is_registered(&self, pod: &Pod) -> bool {
        let all = self.responders.state();
        let registered = registered_responders(pod, all.iter().map(|object| &**object));
        !registered.entries.is_empty()
    }

    /// Returns true when an EvacuationResponder of the namespace has that responder's name.
    pub(crate) fn is_served(&self, namespace: &str, responder: &str) -> bool {
        let serves = |object: &EvacuationResponder| {
            object.metadata.namespace.as_deref() == Some(namespace) && object.spec.name == responder
        };
        self.responders.find(serves).is_some()
    }

    /// Returns the Evacuations that concern a pod.
    pub(crate) fn records(&self, namespace: &str, pod: &str, uid: &str) -> Records {
        self.evacuations.read().unwrap_or_else(PoisonError::into_inner).records(namespace, pod, uid)
    }

    /// Returns false while the evacuation API does not answer.
    pub(crate) fn api_answers(&self) -> bool {
        self.api_answers.load(Ordering::Relaxed)
    }

    /// Records whether the evacuation API answers. Returns true when that has changed.
    pub(crate) fn note_api(&self, answers: bool) -> bool {
        self.api_answers.swap(answers, Ordering::Relaxed) != answers
    }
}
