//! The watch of NodeEvacuations, and that of the Evacuations of their pods.

use evacuation_api::{Evacuation, NodeEvacuation};
use evacuation_client::watch;
use futures::{
    Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, ResourceExt,
    core::Status,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};

use crate::listing::{UNREADABLE, leaving_out};

/// Duration of one watch request, in seconds. A connection that died silently is renewed soon after it.
const WATCH_SECONDS: u32 = 30;

/// Events of the NodeEvacuations of those names, or of all when there are none. The stream recovers from
/// every failure, after a pause.
pub(crate) fn drains(
    client: Client,
    names: &[String],
) -> BoxStream<'static, Result<watcher::Event<NodeEvacuation>, watcher::Error>> {
    let api: Api<NodeEvacuation> = Api::all(client);
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let config = match names {
        [name] => config.fields(&format!("metadata.name={name}")),
        _ => config,
    };
    let names = names.to_vec();
    let wanted = move |event: &Result<Event<NodeEvacuation>, _>| {
        let wanted = match event {
            Ok(Event::InitApply(drain) | Event::Apply(drain) | Event::Delete(drain)) => {
                names.is_empty() || names.contains(&drain.name_any())
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => true,
        };
        future::ready(wanted)
    };
    watcher(api, config).default_backoff().filter(wanted).boxed()
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

/// Events of the NodeEvacuations of those names, or of all when there are none, and of all Evacuations that
/// the server can read. One of any tenant that it cannot is no reason to show none: its drain names it.
pub(crate) fn changes(client: &Client, names: &[String]) -> impl Stream<Item = Change> + Unpin + use<> {
    let drain = drains(client.clone(), names);
    let drain =
        drain.map(|event| event.map_or_else(Change::DrainFailed, |event| Change::Drain(Box::new(event))));
    let pods = watch(Api::<Evacuation>::all(leaving_out(client)), watcher::Config::default());
    let pods = pods.map(|event| event.map_or_else(Change::PodFailed, |event| Change::Pod(Box::new(event))));
    stream::select(drain, pods.boxed())
}

/// Returns true when the caller may not watch.
pub(crate) fn is_refused(error: &watcher::Error) -> bool {
    matches!(code(error), Some(401 | 403))
}

/// Returns true when a watch that has shown nothing yet is to end: the caller may not watch, no server
/// answered within the time of the connection, or the server cannot read one of the objects.
pub(crate) fn is_final(error: &watcher::Error) -> bool {
    is_refused(error) || code(error) == Some(503) || is_unreadable(error)
}

/// Returns true when the server cannot read one of the objects.
pub(crate) fn is_unreadable(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| status.reason == UNREADABLE)
}

fn code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

fn status(error: &watcher::Error) -> Option<&Status> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_evacuation_that_the_server_cannot_read_hides_no_other() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            if query.contains("watch=true") || path.ends_with("/nodeevacuations") {
                std::future::pending::<()>().await;
            }
            let skips = request.headers().get("unreadable-objects").is_some_and(|value| value == "skip");
            let (code, body) = if skips {
                let pod = json!({"pod": {"name": "db-0"}});
                let other = json!({"metadata": {"name": "e", "namespace": "shop"}, "spec": {"target": pod}});
                (200, json!({"metadata": {"resourceVersion": "1"}, "items": [other]}))
            } else {
                (500, json!({"kind": "Status", "code": 500, "reason": UNREADABLE}))
            };
            Ok::<_, Infallible>(
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
            )
        });
        let mut changes = changes(&Client::new(service, "shop"), &[]);
        let found = loop {
            match changes.next().await.unwrap() {
                Change::Pod(event) => {
                    if let Event::InitApply(evacuation) = *event {
                        break evacuation;
                    }
                }
                Change::PodFailed(error) => panic!("{error}"),
                Change::Drain(_) | Change::DrainFailed(_) => {}
            }
        };
        assert_eq!(found.name_any(), "e");
    }
}
