//! The peers: what the same machine does with nothing of ours in between.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, ensure};
use controlplane::{AuditEvent, eventually};
use evacuation_e2e::{Platform, PodSpec};
use futures::{StreamExt, pin_mut};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{EvictParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{
    latency::{COUNT, PERIOD, make_pods},
    samples::Samples,
};

/// Annotation that makes the bare loop evict.
const MARK: &str = "bench.evacuation.dev/evict";
/// Time limit for all events.
const LONGEST: Duration = Duration::from_mins(2);

/// From the call that creates a ConfigMap to its watch event: what a question cannot be faster than.
pub(crate) async fn watch_latency(platform: &Platform) -> anyhow::Result<Samples> {
    let pods = platform.namespace("peer-watch").await?;
    let api: Api<ConfigMap> = Api::namespaced(platform.client()?, pods.namespace());
    let watched = api.clone();
    let watching = tokio::spawn(async move {
        let events = watcher(watched, watcher::Config::default()).applied_objects();
        pin_mut!(events);
        let mut seen = HashMap::new();
        while seen.len() < COUNT {
            let Some(event) = events.next().await else { break };
            let name = event?.name_any();
            if name.starts_with("config-") {
                seen.insert(name, Timestamp::now());
            }
        }
        anyhow::Ok(seen)
    });
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut created = Vec::new();
    for number in 0..COUNT {
        tick.tick().await;
        let name = format!("config-{number}");
        let config = json!({"metadata": {"name": name}, "data": {"key": "value"}});
        created.push((name, Timestamp::now()));
        api.create(&PostParams::default(), &serde_json::from_value(config)?).await?;
    }
    let seen = timeout(LONGEST, watching).await.context("the watch events did not come")???;
    let mut samples = Samples::default();
    for (name, created) in created {
        if let Some(seen) = seen.get(&name) {
            samples.add(created, *seen);
        }
    }
    ensure!(samples.len() == COUNT, "{} of {COUNT} ConfigMaps were seen", samples.len());
    Ok(samples)
}

/// From a pod's annotation to its eviction by a loop that decides nothing and records nothing.
pub(crate) async fn evict_latency(platform: &Platform) -> anyhow::Result<Samples> {
    let pods = platform.namespace("peer-evict").await?;
    let targets = make_pods(&pods, &PodSpec::default()).await?;
    let (api, watched) = (pods.api(), pods.api());
    let evicting = tokio::spawn(async move {
        let events = watcher(watched.clone(), watcher::Config::default()).applied_objects();
        pin_mut!(events);
        let mut evicted = HashMap::new();
        while evicted.len() < COUNT {
            let Some(event) = events.next().await else { break };
            let pod: Pod = event?;
            let (name, marked) = (pod.name_any(), pod.annotations().contains_key(MARK));
            if marked && !evicted.contains_key(&name) {
                let (api, pod) = (watched.clone(), name.clone());
                let call = tokio::spawn(async move { api.evict(&pod, &EvictParams::default()).await });
                evicted.insert(name, call);
            }
        }
        for call in evicted.into_values() {
            call.await??;
        }
        anyhow::Ok(())
    });
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for pod in &targets {
        tick.tick().await;
        let patch = json!({"metadata": {"annotations": {MARK: "now"}}});
        api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    timeout(LONGEST, evicting).await.context("the pods were not evicted")???;
    // The last lines of the audit log may be written after their answers.
    eventually(LONGEST, "200 evictions in the audit log", async || {
        let log = platform.control_plane().audit_events()?;
        let samples = evicted_samples(&log, pods.namespace());
        ensure!(samples.len() == COUNT, "{} of {COUNT} pods were evicted", samples.len());
        Ok(samples)
    })
    .await
    .map_err(anyhow::Error::from)
}

/// From the answer to a pod's annotation to the arrival of its eviction.
fn evicted_samples(log: &[AuditEvent], namespace: &str) -> Samples {
    let mut marked: HashMap<String, Timestamp> = HashMap::new();
    let mut samples = Samples::default();
    for event in log {
        if event.resource() != "pods" || event.namespace() != namespace {
            continue;
        }
        match (event.verb(), event.subresource(), event.received(), event.answered()) {
            ("patch", "", _, Some(answered)) if event.user() == "admin" => {
                marked.entry(event.name().to_owned()).or_insert(answered);
            }
            ("create", "eviction", Some(received), _) => {
                // An eviction can arrive before the patch that caused it was answered: that counts as at
                // once.
                let from = marked.get(event.name()).copied().unwrap_or(received).min(received);
                samples.add(from, received);
            }
            _ => {}
        }
    }
    samples
}
