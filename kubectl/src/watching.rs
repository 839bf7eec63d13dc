//! The watch of NodeEvacuations, and that of the Evacuations of their pods.

use evacuation_api::{Evacuation, NodeEvacuation};
use evacuation_client::watch;
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};

/// Duration of one watch request, in seconds. A connection that died silently is renewed soon after it.
const WATCH_SECONDS: u32 = 30;

/// Events of the NodeEvacuation of that name, or of all. The stream recovers from every failure, after a
/// pause.
pub(crate) fn drains(
    client: Client,
    name: Option<&str>,
) -> BoxStream<'static, Result<watcher::Event<NodeEvacuation>, watcher::Error>> {
    let api: Api<NodeEvacuation> = Api::all(client);
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let config = match name {
        Some(name) => config.fields(&format!("metadata.name={name}")),
        None => config,
    };
    watcher(api, config).default_backoff().boxed()
}

/// One event of either watch.
pub(crate) enum Change {
    /// A NodeEvacuation changed.
    Drain(Box<Event<NodeEvacuation>>),
    /// An Evacuation changed.
    Pod(Box<Event<Evacuation>>),
    /// The watch of NodeEvacuations failed. It recovers by itself.
    DrainFailed(watcher::Error),
    /// The watch of Evacuations failed. It recovers by itself.
    PodFailed(watcher::Error),
}

/// Events of the NodeEvacuation of that name, or of all, and of all Evacuations.
pub(crate) fn changes(client: &Client, name: Option<&str>) -> impl Stream<Item = Change> + Unpin + use<> {
    let drain = drains(client.clone(), name);
    let drain =
        drain.map(|event| event.map_or_else(Change::DrainFailed, |event| Change::Drain(Box::new(event))));
    let pods = watch(Api::<Evacuation>::all(client.clone()), watcher::Config::default());
    let pods = pods.map(|event| event.map_or_else(Change::PodFailed, |event| Change::Pod(Box::new(event))));
    stream::select(drain, pods.boxed())
}

/// Returns true when the caller may not watch.
pub(crate) fn is_refused(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(source) | WatchFailed(source) | WatchStartFailed(source) => {
            matches!(source, kube::Error::Api(status) if matches!(status.code, 401 | 403))
        }
        _ => false,
    }
}
