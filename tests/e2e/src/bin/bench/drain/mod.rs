//! Ten of twenty nodes with 600 pods of one Deployment are drained at once, once under a budget of 10 % and
//! once without. Then twelve of the twenty are drained four at a time. The peer is `kubectl drain` of the
//! same nodes on the same cluster, one process a node. A pod takes 1 to 2 s to end and as long to become
//! ready.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, ensure};
use controlplane::{AuditEvent, ControlPlane, eventually, output_of};
use evacuation_e2e::{Platform, PlatformOptions, Pods};
use futures::{StreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;

use crate::report::{Aim, Better, Row};

/// Number of nodes, every second of which is drained.
const NODES: usize = 20;
/// Number of pods on all nodes.
const PODS: usize = 600;
/// Part of the pods that the budget lets be missing.
const BUDGET_PERCENT: usize = 10;
/// Time that a pod takes to become ready, and to end: the range and its mean.
const TAKES: std::ops::Range<Duration> = Duration::from_secs(1)..Duration::from_secs(2);
const MEAN: f64 = 1.5;
/// Time limit of the preparations.
const LONGEST: Duration = Duration::from_mins(5);

/// Number of nodes that are drained one group after another, and the size of a group.
const ROLLED: usize = 12;
const AT_A_TIME: usize = 4;

/// Nodes to drain.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    /// Numbers of the nodes.
    nodes: &'a [usize],
    /// Number of nodes that are drained at a time.
    at_a_time: usize,
    /// True to protect the pods by a budget.
    with_budget: bool,
}

/// The tool that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Evacuate,
    Drain,
}

impl Tool {
    /// Returns the commands that drain the nodes, that many at a time, as batches of commands that run at
    /// once.
    fn batches(self, nodes: &[String], at_a_time: usize) -> Vec<Vec<Vec<&str>>> {
        match self {
            Self::Evacuate => {
                let limit = if at_a_time < nodes.len() { vec!["--max-parallel=4"] } else { Vec::new() };
                let names = nodes.iter().map(String::as_str).collect();
                vec![vec![[vec!["evacuate", "node"], names, limit].concat()]]
            }
            Self::Drain => {
                let drain = |node| vec!["drain", String::as_str(node)];
                nodes.chunks(at_a_time).map(|nodes| nodes.iter().map(drain).collect()).collect()
            }
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Evacuate => "evacuate",
            Self::Drain => "drain",
        }
    }
}

/// Figures of one drain.
#[derive(Debug)]
struct Drained {
    /// Wall time in seconds.
    seconds: f64,
    /// Number of pods that were on the nodes.
    pods: f64,
    /// Number of calls of pods/eviction.
    evictions: f64,
    /// Number of evictions that succeeded. A pod whose replacement was evicted again counts twice.
    moves: f64,
    /// Number of all requests of those that drain.
    requests: f64,
    /// Number of drains that failed.
    failed: f64,
}

/// Runs the benchmark.
pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let control_plane = ControlPlane::builder().nodes(NODES).pod_ready_after(TAKES).pod_gone_after(TAKES);
    let platform = Platform::start(PlatformOptions { control_plane, ..PlatformOptions::default() }).await?;
    let mut rows = Vec::new();
    let half: Vec<usize> = (1..=NODES).step_by(2).collect();
    for with_budget in [true, false] {
        let at_once = Plan { nodes: &half, at_a_time: half.len(), with_budget };
        let ours = drained(&platform, Tool::Evacuate, at_once).await?;
        let theirs = drained(&platform, Tool::Drain, at_once).await?;
        rows.extend(rows_of(with_budget, &ours, &theirs));
    }
    let most: Vec<usize> = (1..=ROLLED).collect();
    let rolling = Plan { nodes: &most, at_a_time: AT_A_TIME, with_budget: false };
    let ours = drained(&platform, Tool::Evacuate, rolling).await?;
    let theirs = drained(&platform, Tool::Drain, rolling).await?;
    rows.extend(rolling_rows(&ours, &theirs));
    Ok(rows)
}

/// The rows of the drain of twelve nodes, four at a time.
fn rolling_rows(ours: &Drained, theirs: &Drained) -> Vec<Row> {
    let case = format!("{ROLLED} of {NODES} nodes, {AT_A_TIME} at a time, {} of {PODS} pods", ours.pods);
    vec![
        row(format!("wall time, {case}"), "s", Aim::Ratio(1.0), (ours.seconds, theirs.seconds)),
        row(
            format!("moves a pod, {case}"),
            "moves",
            Aim::Value(1.0),
            (ours.moves / ours.pods, theirs.moves / theirs.pods),
        ),
        row(format!("failed drains, {case}"), "drains", Aim::Value(0.0), (ours.failed, theirs.failed)),
    ]
}

fn row(case: String, unit: &'static str, aim: Aim, (value, peer_value): (f64, f64)) -> Row {
    Row {
        bench: "drain",
        case,
        value,
        unit,
        peer: "kubectl drain",
        peer_value,
        // Both can be none.
        ratio: if value.max(peer_value) > 0.0 { value / peer_value } else { 1.0 },
        aim: Some(aim),
        better: Better::Lower,
    }
}

fn rows_of(with_budget: bool, ours: &Drained, theirs: &Drained) -> Vec<Row> {
    let case = if with_budget { "under a budget of 10 %" } else { "without a budget" };
    let row = |what: &str, unit: &'static str, aim: Aim, of: &dyn Fn(&Drained) -> f64| {
        row(format!("{what}, {} of {PODS} pods {case}", ours.pods), unit, aim, (of(ours), of(theirs)))
    };
    // Each batch ends, is replaced, and its replacements become ready, before the next one goes.
    let batches = if with_budget { (ours.pods / count(PODS * BUDGET_PERCENT / 100)).ceil() } else { 1.0 };
    let floor = if with_budget { batches * 2.0 * MEAN } else { MEAN };
    let time = if with_budget { Aim::Value(floor * 1.2) } else { Aim::Ratio(1.0) };
    vec![
        row(&format!("wall time (floor {floor:.0} s)"), "s", time, &|drained| drained.seconds),
        row("eviction calls a pod", "calls", Aim::Value(1.02), &|drained| drained.evictions / drained.pods),
        row("requests a pod", "requests", Aim::Ratio(1.0), &|drained| drained.requests / drained.pods),
        row("failed drains", "drains", Aim::Value(0.0), &|drained| drained.failed),
    ]
}

/// Drains the nodes of a plan, and makes the cluster as it was before.
async fn drained(platform: &Platform, tool: Tool, plan: Plan<'_>) -> anyhow::Result<Drained> {
    let pods = platform.namespace(tool.word()).await?;
    deploy(platform, &pods, plan.with_budget).await?;
    let nodes: Vec<String> = plan.nodes.iter().map(|number| format!("node-{number}")).collect();
    let on_nodes = all(&pods).await?.iter().filter(|pod| is_on(pod, &nodes)).count();
    let before = platform.control_plane().audit_events()?.len();

    let start = Instant::now();
    let mut outputs = Vec::new();
    for batch in tool.batches(&nodes, plan.at_a_time) {
        let runs = stream::iter(&batch).map(async |arguments| {
            let mut command = platform.kubectl_command();
            command.args(arguments);
            output_of("kubectl", command).await
        });
        outputs.extend(runs.buffer_unordered(batch.len()).collect::<Vec<_>>().await);
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut failed = 0.0;
    for output in outputs {
        let output = output?;
        if !output.success() {
            failed += 1.0;
            let said = output.stderr.lines().last().unwrap_or_default();
            eprintln!("{} failed: {said}", tool.word());
        }
    }

    let log = platform.control_plane().audit_events()?;
    let log: Vec<&AuditEvent> = log.iter().skip(before).filter(|event| is_of_the_drain(event)).collect();
    let evicted = |event: &&&AuditEvent| event.resource() == "pods" && event.subresource() == "eviction";
    let evictions = log.iter().filter(evicted).count();
    let moves = log.iter().filter(evicted).filter(|event| event.code() == 201).count();
    let output = platform.kubectl(&["delete", "nodeevacuations", "--all"]).await?;
    ensure!(output.success(), "{}", output.stderr);
    for node in &nodes {
        let output = platform.kubectl(&["uncordon", node]).await?;
        ensure!(output.success(), "{node}: {}", output.stderr);
    }
    remove(platform, &pods).await?;
    Ok(Drained {
        seconds,
        pods: count(on_nodes),
        evictions: count(evictions),
        moves: count(moves),
        requests: count(log.len()),
        failed,
    })
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// True for requests of kubectl, the controller and the API server. Those of the cluster's own controllers
/// are the same with any tool.
fn is_of_the_drain(event: &AuditEvent) -> bool {
    let of_ours = event.user().starts_with("system:serviceaccount:evacuation-system:");
    of_ours || event.user_agent().starts_with("kubectl")
}

fn is_on(pod: &Pod, nodes: &[String]) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    node.is_some_and(|node| nodes.contains(node))
}

async fn all(pods: &Pods) -> anyhow::Result<Vec<Pod>> {
    Ok(pods.api().list(&ListParams::default()).await?.items)
}

/// Removes the Deployment, and waits until its pods are gone: the next drain would meet them.
async fn remove(platform: &Platform, pods: &Pods) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(platform.client()?, pods.namespace());
    deployments.delete("web", &DeleteParams::default()).await?;
    let gone = async || {
        let left = all(pods).await?.len();
        ensure!(left == 0, "{left} pods are left");
        anyhow::Ok(())
    };
    Ok(eventually(LONGEST, "all pods are gone", gone).await?)
}

/// Creates the Deployment, spread over the nodes, and the budget, and waits until all pods are ready.
async fn deploy(platform: &Platform, pods: &Pods, with_budget: bool) -> anyhow::Result<()> {
    let labels = BTreeMap::from([("app", "web")]);
    let spread = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                         "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": labels}}]);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": PODS, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "topologySpreadConstraints": spread, "containers": [{"name": "app", "image": "app"}]}}}});
    let deployments: Api<Deployment> = Api::namespaced(platform.client()?, pods.namespace());
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    let ready = async || {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        let ready = usize::try_from(status.ready_replicas.unwrap_or(0))?;
        ensure!(ready == PODS, "{ready} pods are ready");
        anyhow::Ok(())
    };
    eventually(LONGEST, "all pods are ready", ready).await?;
    if !with_budget {
        return Ok(());
    }
    let budget = json!({"metadata": {"name": "web"}, "spec": {
        "maxUnavailable": format!("{BUDGET_PERCENT}%"), "selector": {"matchLabels": labels}}});
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(platform.client()?, pods.namespace());
    let budget = budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
    let allows = async || {
        let status = budgets.get(&budget.name_any()).await?.status.context("no status")?;
        let allowed = usize::try_from(status.disruptions_allowed.unwrap_or(0))?;
        ensure!(allowed == PODS * BUDGET_PERCENT / 100, "{allowed} are allowed");
        anyhow::Ok(())
    };
    eventually(LONGEST, "the budget allows its part", allows).await?;
    Ok(())
}
