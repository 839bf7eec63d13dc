//! The loop of one watch.

use std::fmt::Debug;

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{PAGE, Pauses, Projected, Projection};

/// Seconds after which a watch is resumed where it stopped: for so long can a watch be silent unnoticed. A
/// list, or the start of a watch, fails by the read timeout of the client, which is longer.
const WATCH_SECONDS: u32 = 120;

/// Description of a watch.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    /// Name in log lines, such as `watch of pods`.
    pub name: &'a str,
    /// Field selector of the objects; all without one.
    pub fields: Option<&'a str>,
}

impl<'a> Watch<'a> {
    /// Returns the watch of all objects.
    pub fn all(name: &'a str) -> Self {
        Self { name, fields: None }
    }
}

/// State of a watch, as its last sign shows.
#[derive(Clone, Copy, Debug)]
pub enum Health<'a> {
    /// A list or a watch failed. It is begun again after a pause.
    Fails(&'a watcher::Error),
    /// The first event after failures came.
    Works,
}

/// Passes the events of a watch to `take` until `stop`.
///
/// # Guarantees
///
/// A list arrives as `Event::Init`, each object, and `Event::InitDone`. One that fails on the way begins
/// again with `Event::Init`. Of each object only what the projection keeps is passed on. One object of the
/// kind at a time is in memory as a whole.
pub async fn follow<K, P>(
    api: Api<Projected<K, P>>,
    watch: Watch<'_>,
    stop: CancellationToken,
    take: impl FnMut(Event<K>),
) where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static,
    P: Projection<K> + 'static,
{
    follow_with_health(api, watch, stop, take, |_| {}).await;
}

/// Does what [`follow`] does, and tells `health` of each failure, and of the first success after failures.
///
/// # Caveats
///
/// A watch that is resumed where it stopped shows no success before an object changes.
pub async fn follow_with_health<K, P>(
    api: Api<Projected<K, P>>,
    watch: Watch<'_>,
    stop: CancellationToken,
    mut take: impl FnMut(Event<K>),
    mut health: impl FnMut(Health<'_>),
) where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static,
    P: Projection<K> + 'static,
{
    let mut config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE);
    config.field_selector = watch.fields.map(str::to_owned);
    let events = watcher(api, config).backoff(Pauses::default());
    pin_mut!(events);
    let name = watch.name;
    let mut broken = false;
    while let Some(Some(event)) = stop.run_until_cancelled(events.next()).await {
        match event {
            Ok(event) => {
                // A list begins before the API is asked, and its next page can fail as before.
                let is_whole = !matches!(event, Event::Init | Event::InitApply(_));
                if is_whole && std::mem::take(&mut broken) {
                    info!("the {name} works again");
                    health(Health::Works);
                }
                take(kept(event));
            }
            Err(error) => {
                if !std::mem::replace(&mut broken, true) {
                    warn!(error = &error as &dyn std::error::Error, "the {name} broke");
                }
                health(Health::Fails(&error));
            }
        }
    }
}

/// Returns the event of the part that is kept.
fn kept<K, P>(event: Event<Projected<K, P>>) -> Event<K> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(object.into_inner()),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(object.into_inner()),
        Event::Delete(object) => Event::Delete(object.into_inner()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        io,
        sync::{
            Arc, Mutex,
            atomic::{AtomicBool, AtomicU32, Ordering},
        },
        time::Duration,
    };

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Client, ResourceExt, client::Body};
    use serde_json::json;

    use super::*;

    /// An API whose requests fail while it is down.
    #[derive(Clone, Default)]
    struct PlayedApi {
        down: Arc<AtomicBool>,
        requests: Arc<AtomicU32>,
    }

    impl PlayedApi {
        fn client(&self) -> Client {
            let api = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let api = api.clone();
                async move { Ok::<_, Infallible>(api.reply(request).await) }
            });
            Client::new(service, "default")
        }

        async fn reply(&self, request: Request<Body>) -> Response<Body> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            if self.down.load(Ordering::Relaxed) {
                return Response::builder().status(503).body(Body::empty()).unwrap();
            }
            let query = request.uri().query().unwrap_or_default().to_owned();
            drop(request);
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let pages = query.split('&').filter(|part| part.starts_with("limit="));
            assert_eq!(pages.collect::<Vec<_>>(), [format!("limit={PAGE}")]);
            let labels = json!({"app": "db"});
            let pod =
                json!({"metadata": {"name": "db-0", "namespace": "shop", "uid": "1", "labels": labels}});
            let list = json!({"metadata": {"resourceVersion": "5"}, "items": [pod]});
            Response::new(Body::from(serde_json::to_vec(&list).unwrap()))
        }
    }

    /// The pods without their labels.
    enum Unlabelled {}

    impl Projection<Pod> for Unlabelled {
        fn project(pod: &mut Pod) {
            pod.metadata.labels = None;
        }
    }

    /// The lines that were logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn count(&self, words: &str) -> usize {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap().matches(words).count()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_backs_off_is_logged_once_and_is_reported_each_time() {
        let (log, api) = (Log::default(), PlayedApi::default());
        let lines = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || lines.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        api.down.store(true, Ordering::Relaxed);
        let (stop, names) = (CancellationToken::new(), Arc::<Mutex<Vec<String>>>::default());
        let (seen, token) = (Arc::clone(&names), stop.clone());
        let pods = Api::<Projected<Pod, Unlabelled>>::all(api.client());
        let signs = Arc::<Mutex<Vec<bool>>>::default();
        let signs_of_watch = Arc::clone(&signs);
        let following = tokio::spawn(async move {
            let take = |event: Event<Pod>| {
                if let Event::InitApply(pod) = event {
                    assert_eq!(pod.metadata.labels, None, "only the projection is passed on");
                    seen.lock().unwrap().push(pod.name_any());
                }
            };
            let health = |health: Health<'_>| {
                signs_of_watch.lock().unwrap().push(matches!(health, Health::Works));
            };
            follow_with_health(pods, Watch::all("watch of pods"), token, take, health).await;
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        // At most five short pauses, then one and a half seconds at least between two lists.
        let requests = api.requests.load(Ordering::Relaxed);
        assert!((20..=45).contains(&requests), "{requests}");
        assert_eq!((log.count("the watch of pods broke"), log.count("works again")), (1, 0));
        let failures = signs.lock().unwrap().clone();
        assert_eq!(failures, vec![false; usize::try_from(requests).unwrap()]);

        api.down.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((log.count("broke"), log.count("the watch of pods works again")), (1, 1));
        assert_eq!(*names.lock().unwrap(), ["db-0"]);
        assert_eq!(signs.lock().unwrap().last(), Some(&true));
        stop.cancel();
        following.await.unwrap();
    }
}
