//! The watch of NodeEvacuations.

use evacuation_api::NodeEvacuation;
use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
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
