//! A single replica under a budget that allows none to be missing is evacuated ten times, one time after
//! another. Every 50 ms its Service's ready endpoints are counted. The peer is `kubectl drain
//! --disable-eviction` of its node, the usual way around such a budget.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, bail, ensure};
use controlplane::{ControlPlane, eventually};
use evacuation_api::{EvacuationResponder, REPLACEMENT_RESPONDER};
use evacuation_client::{End, Requester};
use evacuation_e2e::{Platform, PlatformOptions, Pods};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::report::{Aim, Row};

/// Number of evacuations of the replica.
const ROUNDS: usize = 10;
/// Interval between counts of its endpoints.
const PROBE_EVERY: Duration = Duration::from_millis(50);
/// Time limit of one evacuation.
const LONGEST: Duration = Duration::from_mins(2);
/// The Deployment, its Service, its budget.
const NAME: &str = "web";

/// Runs the benchmark.
pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let options = PlatformOptions {
        control_plane: ControlPlane::builder().nodes(3).pods_in_endpoint_slices(),
        components: vec!["built-in-responders".to_owned()],
        ..PlatformOptions::default()
    };
    let platform = Platform::start(options).await?;
    let ours = evacuated(&platform).await?;
    let theirs = drained(&platform).await?;
    let row = |what: &str, value: Duration, peer_value: Duration| {
        let (value, peer_value) = (value.as_secs_f64() * 1000.0, peer_value.as_secs_f64() * 1000.0);
        Row::new("surge", format!("{what}, {ROUNDS} evacuations of a single replica"), "ms", value)
            .beside("kubectl drain --disable-eviction", peer_value)
            .aim(Aim::Value(0.0))
    };
    Ok(vec![
        row("downtime in total", ours.total, theirs.total),
        row("longest gap", ours.longest, theirs.longest),
    ])
}

/// For how long no endpoint was ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Downtime {
    total: Duration,
    longest: Duration,
}

impl Downtime {
    /// From probes: when, and whether an endpoint was ready. A gap lasts from the first probe that found none
    /// to the next that found one.
    fn of(probes: &[(Instant, bool)]) -> Self {
        let (mut downtime, mut since) = (Self::default(), None);
        for (time, ready) in probes {
            match (ready, since) {
                (false, None) => since = Some(*time),
                (true, Some(start)) => {
                    let gap = time.duration_since(start);
                    downtime.total += gap;
                    downtime.longest = downtime.longest.max(gap);
                    since = None;
                }
                _ => {}
            }
        }
        downtime
    }
}

/// Evacuates the replica, which has a built-in responder.
async fn evacuated(platform: &Platform) -> anyhow::Result<Downtime> {
    let pods = platform.namespace("surge").await?;
    let client = platform.client()?;
    let responder =
        json!({"metadata": {"name": "surge"}, "spec": {"selector": {}, "name": REPLACEMENT_RESPONDER}});
    create::<EvacuationResponder>(&client, &pods, responder).await?;
    let requester = Requester::new(client, "bench.evacuation.dev/surge");
    probed(platform, &pods, async || {
        let pod = only_pod(&pods, None).await?;
        let evacuation = requester.evacuate(pods.namespace(), &pod.name_any()).await?;
        let end = evacuation.wait().await?;
        ensure!(matches!(end, End::Evacuated { .. }), "{end}");
        only_pod(&pods, Some(&pod)).await.map(drop)
    })
    .await
}

/// Drains the replica's node and uncordons it.
async fn drained(platform: &Platform) -> anyhow::Result<Downtime> {
    let pods = platform.namespace("drain").await?;
    let selector = format!("--pod-selector=app={NAME}");
    probed(platform, &pods, async || {
        let pod = only_pod(&pods, None).await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let node = node.context("the pod has no node")?;
        for arguments in [vec!["drain", &node, "--disable-eviction", &selector], vec!["uncordon", &node]] {
            let output = platform.kubectl(&arguments).await?;
            ensure!(output.success(), "{arguments:?}: {}", output.stderr);
        }
        only_pod(&pods, Some(&pod)).await.map(drop)
    })
    .await
}

/// Creates the workload, moves it [`ROUNDS`] times, and counts its ready endpoints meanwhile.
async fn probed(
    platform: &Platform,
    pods: &Pods,
    move_once: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<Downtime> {
    let client = platform.client()?;
    let labels = json!({"app": NAME});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let deployment = json!({"metadata": {"name": NAME},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    create::<Deployment>(&client, pods, deployment).await?;
    let service = json!({"metadata": {"name": NAME}, "spec": {"selector": labels, "ports": [{"port": 80}]}});
    create::<Service>(&client, pods, service).await?;
    only_pod(pods, None).await?;
    pods.budget(NAME, ("app", NAME), 0).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(client, pods.namespace());
    let served = async || {
        ensure!(is_served(&slices).await?, "none is");
        anyhow::Ok(())
    };
    eventually(LONGEST, "an endpoint is ready", served).await?;
    let watched = slices.clone();
    let (stop, mut stopped) = oneshot::channel::<()>();
    let probing = tokio::spawn(async move {
        let mut tick = interval(PROBE_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut probes = Vec::new();
        loop {
            tokio::select! {
                _ = &mut stopped => return anyhow::Ok(probes),
                _ = tick.tick() => probes.push((Instant::now(), is_served(&watched).await?)),
            }
        }
    });
    for _ in 0..ROUNDS {
        move_once().await?;
    }
    // The endpoints follow the pods.
    eventually(LONGEST, "an endpoint is ready again", served).await?;
    drop(stop);
    Ok(Downtime::of(&probing.await??))
}

/// Returns whether an endpoint of the Service is ready.
async fn is_served(slices: &Api<EndpointSlice>) -> anyhow::Result<bool> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={NAME}"));
    let found = slices.list(&of_service).await?;
    Ok(found
        .items
        .into_iter()
        .filter_map(|slice| slice.endpoints)
        .flatten()
        .any(|endpoint| endpoint.conditions.is_some_and(|conditions| conditions.ready == Some(true))))
}

/// Waits until exactly one pod is there, ready, and another than the one before.
async fn only_pod(pods: &Pods, before: Option<&Pod>) -> anyhow::Result<Pod> {
    let api = pods.api();
    let old: BTreeSet<Option<String>> = before.iter().map(|pod| pod.uid()).collect();
    let name = eventually(LONGEST, "one pod is there", async || {
        let found = api.list(&ListParams::default()).await?.items;
        match found.as_slice() {
            [one] if !old.contains(&one.uid()) => Ok(one.name_any()),
            _ => bail!("{} pods", found.len()),
        }
    })
    .await?;
    pods.ready(&name).await
}

async fn create<K>(client: &Client, pods: &Pods, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), pods.namespace());
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_lasts_until_an_endpoint_is_ready_again() {
        let start = Instant::now();
        let probes: Vec<(Instant, bool)> = [true, false, false, true, false, true]
            .into_iter()
            .zip(0..)
            .map(|(ready, number)| (start + PROBE_EVERY * number, ready))
            .collect();
        let expected = Downtime { total: PROBE_EVERY * 3, longest: PROBE_EVERY * 2 };
        assert_eq!(Downtime::of(&probes), expected);
    }
}
