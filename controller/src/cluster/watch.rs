//! What the API reports, fed into the index.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use futures::TryStreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    client::Body,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Cluster, Kind, backoff,
    index::{prune_namespace, prune_pod, prune_replica_set},
    view::Viewed,
};

/// After how long a watch is begun anew where it stopped, in seconds: so long can a broken connection go unnoticed.
const WATCH_SECONDS: u32 = 120;
/// The shortest and the longest pause after a watch broke. Short, so that answers given right after an outage are seen.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// How often the API is asked whether it is there and what time it is: so that, when its clock is set, nothing is a second late.
const PROBE_EVERY: Duration = Duration::from_millis(800);
/// How long it may take to answer that.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);

/// The header in which the API server says what time it is there.
const SERVER_TIME: &str = "server-time";

/// Starts the watches of those kinds.
pub(crate) fn follow_kinds(
    cluster: &Cluster,
    kinds: &BTreeSet<Kind>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    for kind in kinds {
        let (cluster, kind, stop) = (cluster.clone(), *kind, stop.clone());
        match kind {
            Kind::Evacuations => tasks.spawn(follow::<Evacuation>(cluster, kind, |_| {}, stop)),
            Kind::Pods => tasks.spawn(follow::<Pod>(cluster, kind, prune_pod, stop)),
            Kind::Budgets => tasks.spawn(follow::<PodDisruptionBudget>(cluster, kind, |_| {}, stop)),
            Kind::Nodes => {
                tasks.spawn(follow::<Node>(cluster, kind, |node| node.metadata.managed_fields = None, stop))
            }
            Kind::Namespaces => {
                tasks.spawn(follow::<PartialObjectMeta<Namespace>>(cluster, kind, prune_namespace, stop))
            }
            Kind::ReplicaSets => {
                tasks.spawn(follow::<PartialObjectMeta<ReplicaSet>>(cluster, kind, prune_replica_set, stop))
            }
        };
    }
}

async fn follow<K>(cluster: Cluster, kind: Kind, prune: fn(&mut K), stop: CancellationToken)
where
    K: Viewed
        + Resource<DynamicType = ()>
        + ResourceExt
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let name = kind.watch_name();
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let mut stream =
        Box::pin(watcher(Api::<K>::all(cluster.client.clone()), config).backoff(Pauses { failures: 0 }));
    let mut listed = Vec::new();
    let mut broken = false;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = stream.try_next() => event,
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                if !broken {
                    warn!(error = &error as &dyn std::error::Error, "the {name} broke");
                }
                broken = true;
                continue;
            }
        };
        if std::mem::take(&mut broken) {
            info!("the {name} goes on");
        }
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(mut object) => {
                prune(&mut object);
                listed.push(object);
            }
            Event::InitDone => {
                cluster.view.reset(std::mem::take(&mut listed));
                cluster.readiness.set(name);
            }
            Event::Apply(mut object) => {
                prune(&mut object);
                cluster.view.apply(object);
            }
            Event::Delete(object) => cluster.view.delete(&object),
        }
    }
}

/// Asks the API again and again whether it is there and what time it is there, so that outages and jumps of its clock are
/// noticed also while nothing else is to be asked. A list of one, because it goes all the way to the store.
pub(crate) async fn probe(cluster: Cluster, stop: CancellationToken) {
    let mut out = false;
    loop {
        let sent = Instant::now();
        if let Ok(Some(reply)) = timeout(PROBE_TIMEOUT, ask(&cluster.client)).await {
            cluster.api_answered(reply.time, sent, reply.received);
        }
        if cluster.reachability.is_out(Instant::now()) != out {
            out = !out;
            if out {
                warn!("the API does not answer");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PROBE_EVERY) => {}
        }
    }
}

/// What the probe wants to know.
struct Reply {
    time: Option<DateTime<Utc>>,
    received: Instant,
}

/// Asks once. `None` when the API is not there.
async fn ask(client: &Client) -> Option<Reply> {
    let path = Evacuation::url_path(&(), None);
    let request = http::Request::get(format!("{path}?limit=1"));
    let reply = client.send(request.body(Body::empty()).ok()?).await.ok()?;
    let received = Instant::now();
    // A refusal is an answer, too.
    let refused = reply.status().is_client_error() && reply.status() != http::StatusCode::TOO_MANY_REQUESTS;
    if !reply.status().is_success() && !refused {
        return None;
    }
    let time = reply.headers().get(SERVER_TIME).and_then(|time| {
        let time = DateTime::parse_from_rfc3339(time.to_str().ok()?).ok()?;
        Some(time.to_utc())
    });
    // Read to its end, so that the connection can be used again.
    reply.into_body().collect().await.ok()?;
    Some(Reply { time, received })
}

/// The pauses between attempts to go on with a watch.
struct Pauses {
    failures: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        Some(backoff(PAUSE.0, PAUSE.1, self.failures))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
