//! Watches of configurations.

use std::{
    collections::BTreeMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// Objects of one kind, by namespace and name.
pub(crate) type Objects<K> = BTreeMap<(String, String), Arc<K>>;

/// State of a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Synced(Arc<AtomicBool>);

impl Synced {
    /// Returns true once the watch has shown every object.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Starts a watch of all objects of a kind, which runs until `shutdown`. `changed` gets all objects after
/// each change; it is called in the watch's own task. More than `most` objects are an error of the
/// configuration: `changed` gets `None`.
pub(crate) fn start<K, F>(api: Api<K>, most: usize, shutdown: CancellationToken, changed: F) -> Synced
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
    F: Fn(Option<&Objects<K>>) + Send + 'static,
{
    let synced = Synced::default();
    let flag = synced.clone();
    tokio::spawn(async move {
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let mut stream = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut objects = Objects::<K>::new();
        let mut listed = Objects::<K>::new();
        while let Some(Some(event)) = shutdown.run_until_cancelled(stream.next()).await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                // One more than allowed is kept, to tell.
                Ok(watcher::Event::InitApply(object)) if listed.len() <= most => {
                    listed.insert(key(&object), Arc::new(object));
                }
                Ok(watcher::Event::InitApply(_)) => {}
                Ok(watcher::Event::InitDone) => {
                    objects = std::mem::take(&mut listed);
                    changed(Some(&objects).filter(|objects| objects.len() <= most));
                    flag.0.store(true, Ordering::Relaxed);
                }
                Ok(watcher::Event::Apply(object)) => {
                    if objects.len() <= most || objects.contains_key(&key(&object)) {
                        objects.insert(key(&object), Arc::new(object));
                    }
                    changed(Some(&objects).filter(|objects| objects.len() <= most));
                }
                Ok(watcher::Event::Delete(object)) => {
                    objects.remove(&key(&object));
                    changed(Some(&objects).filter(|objects| objects.len() <= most));
                }
                Err(error) => tracing::warn!(kind, %error, "the watch failed and is retried"),
            }
            if objects.len() > most {
                tracing::error!(kind, most, "too many objects for admission: writes are refused");
            }
        }
    });
    synced
}

fn key<K: Resource>(object: &K) -> (String, String) {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
