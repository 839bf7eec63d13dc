//! Lists of 10,000 objects, and watches.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use super::{
    BENCH,
    contestant::{Contestant, PEERS},
};
use crate::report::{Aim, Row};

/// Number of objects.
const OBJECTS: usize = 10_000;
/// Number of objects that are created at once.
const AT_ONCE: usize = 32;
/// Size of a page.
const PAGE: u32 = 500;
/// Numbers of watchers, and of the changes that each of them sees.
const WATCHERS: [(usize, usize); 2] = [(100, 200), (1000, 50)];
/// Maximum time for the events of a watcher.
const PATIENCE: Duration = Duration::from_mins(2);
/// Maximum of the time of a list and of the CPU of an event, as a share of the peer's.
const THIRD: f64 = 0.34;

/// Figures of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    whole_millis: f64,
    paged_millis: f64,
    /// CPU time of an event for each number of watchers.
    event_micros: [f64; 2],
    memory_mib: f64,
}

/// Measures a server, and removes the objects.
pub(super) async fn measure(server: &Contestant) -> anyhow::Result<Reads> {
    let api = server.api()?;
    fill(server, OBJECTS).await?;
    let memory_mib = server.memory()?;
    let began = Instant::now();
    let whole = api.list(&ListParams::default()).await?;
    let whole_millis = began.elapsed().as_secs_f64() * 1e3;
    ensure!(whole.items.len() == OBJECTS, "{} of {OBJECTS} objects", whole.items.len());
    let began = Instant::now();
    ensure!(paged(&api).await? == OBJECTS, "the pages do not have every object");
    let paged_millis = began.elapsed().as_secs_f64() * 1e3;
    let mut event_micros = [0.0; 2];
    for (micros, (watchers, changes)) in event_micros.iter_mut().zip(WATCHERS) {
        *micros = watched(server, watchers, changes).await?;
    }
    remove_all(server).await?;
    Ok(Reads { whole_millis, paged_millis, event_micros, memory_mib })
}

/// Creates so many objects.
pub(super) async fn fill(server: &Contestant, objects: usize) -> anyhow::Result<()> {
    let api = server.api()?;
    let params = PostParams::default();
    let create = |number| {
        let (api, params, object) = (&api, &params, server.kind.object(&format!("r-{number}"), number));
        async move { api.create(params, &object).await.map(drop) }
    };
    let creations = stream::iter((0..objects).map(create));
    Ok(creations.buffer_unordered(AT_ONCE).try_collect::<()>().await?)
}

/// Removes all objects. A server may end the call at its limit of time, and goes on where it stopped at the
/// next.
pub(super) async fn remove_all(server: &Contestant) -> anyhow::Result<()> {
    let api = server.api()?;
    loop {
        match api.delete_collection(&DeleteParams::default(), &ListParams::default()).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 504 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn paged(api: &Api<DynamicObject>) -> anyhow::Result<usize> {
    let (mut count, mut token) = (0, None);
    loop {
        let params = ListParams { limit: Some(PAGE), continue_token: token, ..ListParams::default() };
        let page = api.list(&params).await?;
        count += page.items.len();
        token = page.metadata.continue_.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(count);
        }
    }
}

/// Changes one object again and again before many watchers. Returns the CPU time of an event for a watcher,
/// less than which the changes themselves cost.
async fn watched(server: &Contestant, watchers: usize, count: usize) -> anyhow::Result<f64> {
    let api = server.api()?;
    let version = api.get("r-0").await?.metadata.resource_version.unwrap_or_default();
    let quiet = changes(server, &api, "quiet", count).await?;
    let mut tasks = Vec::new();
    let (caught_up, mut watching) = mpsc::channel(watchers);
    for _ in 0..watchers {
        let (api, version, caught_up) = (server.api()?, version.clone(), caught_up.clone());
        tasks.push(tokio::spawn(async move {
            let params = WatchParams::default().timeout(290);
            let mut events = api.watch(&params, &version).await?.boxed();
            let mut seen = 0;
            while seen < 2 * count {
                match timeout(PATIENCE, events.try_next()).await?? {
                    Some(WatchEvent::Modified(_)) => seen += 1,
                    Some(_) => {}
                    None => anyhow::bail!("the watch ended after {seen} events"),
                }
                if seen == count {
                    caught_up.send(()).await?;
                }
            }
            anyhow::Ok(())
        }));
    }
    drop(caught_up);
    // Each sees the changes before it came first.
    for _ in 0..watchers {
        timeout(PATIENCE, watching.recv()).await?.context("a watch ended early")?;
    }
    let cpu = server.cpu()?;
    changes(server, &api, "watched", count).await?;
    for watch in try_join_all(tasks).await? {
        watch?;
    }
    let total = server.cpu()? - cpu - quiet;
    #[expect(clippy::cast_precision_loss, reason = "some thousand events")]
    Ok(total * 1e6 / (watchers * count) as f64)
}

/// Changes one object. Returns the CPU time of the server in seconds.
async fn changes(
    server: &Contestant,
    api: &Api<DynamicObject>,
    round: &str,
    count: usize,
) -> anyhow::Result<f64> {
    let cpu = server.cpu()?;
    for number in 0..count {
        let change = format!("{round}-{number}");
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"change": change}}}));
        api.patch("r-0", &PatchParams::default(), &patch).await?;
    }
    Ok(server.cpu()? - cpu)
}

/// Returns the rows, ours beside each peer's.
pub(super) fn rows(ours: &Reads, peers: &[Reads; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (peer, name) in peers.iter().zip(PEERS) {
        let row = |case: &str, unit, own, other, aim| {
            Row::new(BENCH, case, unit, own).beside(name, other).aim(Aim::Ratio(aim))
        };
        rows.push(row("list of 10,000, whole", "ms", ours.whole_millis, peer.whole_millis, THIRD));
        rows.push(row("list of 10,000, in pages of 500", "ms", ours.paged_millis, peer.paged_millis, THIRD));
        for ((own, other), (watchers, _)) in
            ours.event_micros.into_iter().zip(peer.event_micros).zip(WATCHERS)
        {
            let case = format!("server CPU an event, {watchers} watchers");
            rows.push(row(&case, "us", own, other, THIRD));
        }
        let (own, other) = (ours.memory_mib, peer.memory_mib);
        rows.push(row("memory of the server with 10,000 objects", "MiB", own, other, THIRD));
    }
    rows
}
