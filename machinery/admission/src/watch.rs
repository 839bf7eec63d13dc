//! Watches of configurations.

mod index;

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, stream::BoxStream};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use machinery_watch::Pauses;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::index::{Effect, Index};
pub(crate) use self::index::{Known, Objects};

/// Time after which the objects are listed again, when there were too many and one of them has gone.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// State of a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Synced(Arc<AtomicBool>);

impl Synced {
    /// Returns true once the watch has shown every object.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Objects that a watch keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep<K> {
    /// Maximum number of objects.
    pub(crate) most: usize,
    /// Returns true for the objects that are kept and counted.
    pub(crate) matters: fn(&K) -> bool,
}

/// Starts a watch of the objects of a kind, which runs until `shutdown`. `changed` gets the state after each
/// change; it is called in the watch's own task.
pub(crate) fn start<K, F>(api: Api<K>, keep: Keep<K>, shutdown: CancellationToken, changed: F) -> Synced
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
    F: Fn(Known<'_, K>) + Send + 'static,
{
    let synced = Synced::default();
    let open = move || -> BoxStream<'static, _> {
        watcher::watcher(api.clone(), watcher::Config::default()).backoff(Pauses::default()).boxed()
    };
    tokio::spawn(follow(open, keep, shutdown, synced.clone(), changed));
    synced
}

/// Follows the events until `shutdown`. A stream that `open` returns starts with a list.
async fn follow<K, S>(
    open: impl Fn() -> S,
    keep: Keep<K>,
    shutdown: CancellationToken,
    synced: Synced,
    changed: impl Fn(Known<'_, K>),
) where
    K: Resource,
    K::DynamicType: Default,
    S: Stream<Item = Result<Event<K>, watcher::Error>> + Unpin,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let most = keep.most;
    let mut index = Index::new(most, keep.matters);
    let mut stream = open();
    let mut list_again: Option<Instant> = None;
    loop {
        let due = async {
            match list_again {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            () = shutdown.cancelled() => return,
            () = due => {
                list_again = None;
                stream = open();
                continue;
            }
            event = stream.next() => event,
        };
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                tracing::warn!(kind, %error, "the watch failed and is retried");
                continue;
            }
            None => return,
        };
        let (overflowed, effect) = (index.overflows(), index.apply(event));
        match &effect {
            Effect::Nothing => {}
            Effect::Listed => {
                list_again = None;
                changed(index.known(None));
                synced.set();
            }
            Effect::Changed(key) => changed(index.known(Some(key))),
            Effect::Overflow => changed(index.known(None)),
            Effect::Vacancy => list_again = list_again.or_else(|| Some(Instant::now() + LIST_AGAIN)),
        }
        match (overflowed, index.overflows()) {
            (false, true) => {
                tracing::error!(kind, most, "too many objects for admission: writes are refused");
            }
            (true, false) => tracing::info!(kind, most, "admission knows all objects again"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(name: &str) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
    }

    /// A stream that lists those objects, shows the other events, and then nothing more.
    fn shows(
        listed: &[&str],
        then: Vec<Event<ConfigMap>>,
    ) -> BoxStream<'static, Result<Event<ConfigMap>, watcher::Error>> {
        let mut events = vec![Event::Init];
        events.extend(listed.iter().map(|name| Event::InitApply(map(name))));
        events.push(Event::InitDone);
        events.extend(then);
        stream::iter(events.into_iter().map(Ok)).chain(stream::pending()).boxed()
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_were_too_many_are_listed_again_once_one_has_gone() {
        let streams = Mutex::new(vec![
            shows(&["b", "c"], vec![]),
            shows(&["a", "b"], vec![Event::Apply(map("c")), Event::Delete(map("a"))]),
        ]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (sink, shutdown) = (seen.clone(), CancellationToken::new());
        let (synced, keep) = (Synced::default(), Keep { most: 2, matters: |_: &ConfigMap| true });
        let open = move || streams.lock().unwrap().pop().unwrap();
        let changed = move |known: Known<'_, ConfigMap>| {
            sink.lock().unwrap().push(match known {
                Known::All { objects, .. } => Some(objects.len()),
                Known::Overflow => None,
            });
        };
        let watch = tokio::spawn(follow(open, keep, shutdown.clone(), synced.clone(), changed));
        tokio::time::sleep(LIST_AGAIN / 2).await;
        assert_eq!(*seen.lock().unwrap(), [Some(2), None], "c was never kept");
        assert!(synced.is_set());
        tokio::time::sleep(LIST_AGAIN).await;
        assert_eq!(*seen.lock().unwrap(), [Some(2), None, Some(2)]);
        shutdown.cancel();
        watch.await.unwrap();
    }
}
