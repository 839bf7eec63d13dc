//! Configurations of the plugins, compiled as they change.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

use crate::{
    plugin::Plugin,
    policy::{Binding, Policy},
    watch::{self, Keep, Known, Objects, Synced},
    webhook::Hook,
};

/// Maximum number of configurations of each kind.
const MAX_CONFIGURATIONS: usize = 1000;

/// One state of the configurations.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) mutating: Vec<Arc<Hook>>,
    pub(crate) validating: Vec<Arc<Hook>>,
    pub(crate) policies: Vec<(Arc<Policy>, Vec<Arc<Binding>>)>,
    /// True when there are too many configurations of a kind to know them all.
    pub(crate) overflow: bool,
}

/// Configurations of the plugins, from watches.
#[derive(Debug)]
pub(crate) struct Configurations {
    snapshot: Arc<ArcSwap<Snapshot>>,
    synced: Vec<Synced>,
}

/// Compiled objects of each kind; `None` for a kind that has too many.
#[derive(Debug)]
struct ByKind {
    mutating: Option<Vec<Arc<Hook>>>,
    validating: Option<Vec<Arc<Hook>>>,
    policies: Option<Vec<Arc<Policy>>>,
    bindings: Option<Vec<Arc<Binding>>>,
}

impl Default for ByKind {
    fn default() -> Self {
        let (mutating, validating) = (Some(Vec::new()), Some(Vec::new()));
        Self { mutating, validating, policies: Some(Vec::new()), bindings: Some(Vec::new()) }
    }
}

/// Compiled form of the objects of one kind, by UID, with the versions that they were compiled from.
type Compiled<T> = Mutex<HashMap<String, (String, Arc<T>)>>;

impl Configurations {
    /// Starts the watches that the plugins need, which run until `shutdown`.
    pub(crate) fn start(client: &Client, plugins: &[Plugin], shutdown: &CancellationToken) -> Self {
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
        let kinds = Arc::new(Mutex::new(ByKind::default()));
        let mut synced = Vec::new();
        if plugins.contains(&Plugin::MutatingAdmissionWebhook) {
            let compile = |configuration: &MutatingWebhookConfiguration| -> Vec<Arc<Hook>> {
                let webhooks = configuration.webhooks.iter().flatten();
                webhooks
                    .map(|webhook| Arc::new(Hook::of_mutating(&configuration.metadata, webhook)))
                    .collect()
            };
            let update =
                |kinds: &mut ByKind, all: Option<Vec<Arc<Vec<Arc<Hook>>>>>| kinds.mutating = flat(all);
            synced.push(follow(client, &snapshot, &kinds, shutdown, compile, update));
        }
        if plugins.contains(&Plugin::ValidatingAdmissionWebhook) {
            let compile = |configuration: &ValidatingWebhookConfiguration| -> Vec<Arc<Hook>> {
                let webhooks = configuration.webhooks.iter().flatten();
                webhooks
                    .map(|webhook| Arc::new(Hook::of_validating(&configuration.metadata, webhook)))
                    .collect()
            };
            let update =
                |kinds: &mut ByKind, all: Option<Vec<Arc<Vec<Arc<Hook>>>>>| kinds.validating = flat(all);
            synced.push(follow(client, &snapshot, &kinds, shutdown, compile, update));
        }
        if plugins.contains(&Plugin::ValidatingAdmissionPolicy) {
            let update = |kinds: &mut ByKind, all: Option<Vec<Arc<Policy>>>| kinds.policies = all;
            synced.push(follow(
                client,
                &snapshot,
                &kinds,
                shutdown,
                |policy: &ValidatingAdmissionPolicy| Policy::compile(policy),
                update,
            ));
            let update = |kinds: &mut ByKind, all: Option<Vec<Arc<Binding>>>| kinds.bindings = all;
            synced.push(follow(
                client,
                &snapshot,
                &kinds,
                shutdown,
                |binding: &ValidatingAdmissionPolicyBinding| Binding::compile(binding),
                update,
            ));
        }
        Self { snapshot, synced }
    }

    /// Returns true once every watch has shown its objects.
    pub(crate) fn has_synced(&self) -> bool {
        self.synced.iter().all(Synced::is_set)
    }

    /// A state without watches.
    #[cfg(test)]
    pub(crate) fn fixed(snapshot: Snapshot, synced: Synced) -> Self {
        Self { snapshot: Arc::new(ArcSwap::from_pointee(snapshot)), synced: vec![synced] }
    }

    /// Replaces the state.
    #[cfg(test)]
    pub(crate) fn replace(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Returns the present state.
    pub(crate) fn snapshot(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }
}

fn flat(all: Option<Vec<Arc<Vec<Arc<Hook>>>>>) -> Option<Vec<Arc<Hook>>> {
    all.map(|all| all.iter().flat_map(|hooks| hooks.iter().cloned()).collect())
}

/// Keeps one part of the snapshot in step with the objects of a kind, in the order of their names.
fn follow<K, T>(
    client: &Client,
    snapshot: &Arc<ArcSwap<Snapshot>>,
    kinds: &Arc<Mutex<ByKind>>,
    shutdown: &CancellationToken,
    compile: impl Fn(&K) -> T + Send + 'static,
    update: impl Fn(&mut ByKind, Option<Vec<Arc<T>>>) + Send + 'static,
) -> Synced
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    T: Send + Sync + 'static,
{
    let (snapshot, kinds) = (snapshot.clone(), kinds.clone());
    let compiled: Compiled<T> = Mutex::default();
    let changed = move |known: Known<'_, K>| {
        let all = match known {
            Known::All { objects, .. } => Some(refresh(&compiled, objects, &compile)),
            Known::Overflow => None,
        };
        let mut kinds = kinds.lock().unwrap_or_else(PoisonError::into_inner);
        update(&mut kinds, all);
        snapshot.store(Arc::new(combine(&kinds)));
    };
    let keep = Keep { most: MAX_CONFIGURATIONS, matters: |_: &K| true };
    watch::start(Api::all(client.clone()), keep, shutdown.clone(), changed)
}

/// Compiles the objects that have changed.
fn refresh<K: Resource<DynamicType = ()>, T>(
    compiled: &Compiled<T>,
    objects: &Objects<K>,
    compile: &impl Fn(&K) -> T,
) -> Vec<Arc<T>> {
    let mut compiled = compiled.lock().unwrap_or_else(PoisonError::into_inner);
    let mut present = HashMap::new();
    let mut all = Vec::new();
    for object in objects.values() {
        let uid = object.meta().uid.clone().unwrap_or_default();
        let version = object.meta().resource_version.clone().unwrap_or_default();
        let known = compiled.remove(&uid).filter(|(known, _)| *known == version);
        let known = known.unwrap_or_else(|| (version, Arc::new(compile(object))));
        all.push(known.1.clone());
        present.insert(uid, known);
    }
    *compiled = present;
    all
}

fn combine(kinds: &ByKind) -> Snapshot {
    let ByKind { mutating, validating, policies, bindings } = kinds;
    let of = |policy: &Arc<Policy>| {
        let bindings = bindings.iter().flatten().filter(|binding| binding.policy == policy.name);
        (policy.clone(), bindings.cloned().collect::<Vec<_>>())
    };
    let policies_of = policies.iter().flatten().map(of).filter(|(_, bindings)| !bindings.is_empty());
    Snapshot {
        mutating: mutating.clone().unwrap_or_default(),
        validating: validating.clone().unwrap_or_default(),
        policies: policies_of.collect(),
        overflow: mutating.is_none() || validating.is_none() || policies.is_none() || bindings.is_none(),
    }
}
