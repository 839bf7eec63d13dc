//! Drains, each beside `kubectl drain` of the same nodes on the same cluster, one process a node.
//!
//! Ten of twenty nodes with 600 pods of one Deployment are drained at once, once under a budget of 10 % and
//! once without. Two are drained under a budget of 1 %, which is used up most of the time. Then twelve of the
//! twenty are drained four at a time, with the taint of the nodes that are due and without. Last, 200 pods
//! leave one node. A pod takes 1 to 2 s to end and as long to become ready.
//! [`scale`] measures how the cost of a drain grows with the cluster.

mod case;
mod figures;
mod plot;
mod processes;
mod requests;
mod scale;
mod timeline;
mod tool;
mod workload;

use std::{ops::Range, time::Duration};

use controlplane::{Builder, ControlPlane};
use evacuation_e2e::{Platform, PlatformOptions};

use self::{
    case::{Case, Drained, count, kubectl},
    figures::Pair,
    tool::Tool,
    workload::Workload,
};
use crate::report::{Aim, Row};

pub(crate) use scale::{Scale, run as run_scale};

/// Number of nodes, every second of which is drained.
const NODES: usize = 20;
/// Number of pods on all nodes.
const PODS: usize = 600;
/// Part of the pods that the budget lets be missing, and that of a budget which evictions wait for.
const BUDGET_PERCENT: usize = 10;
const TIGHT_PERCENT: usize = 1;
/// Number of nodes that are drained under the tight budget.
const FEW: usize = 2;
/// Time that a pod takes to become ready, and to end: the range and its mean.
const TAKES: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(2);
const MEAN: f64 = 1.5;
/// Number of nodes that are drained one group after another, and the size of a group.
const ROLLED: usize = 12;
const AT_A_TIME: usize = 4;
/// Number of pods on a single node.
const ON_ONE_NODE: usize = 200;

/// Runs the benchmark.
pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let platform = start(ControlPlane::builder().nodes(NODES)).await?;
    let half = || names((1..=NODES).step_by(2));
    let mut rows = at_once(&platform, half(), Some(BUDGET_PERCENT)).await?;
    rows.extend(at_once(&platform, half(), None).await?);
    rows.extend(at_once(&platform, names(1..=FEW), Some(TIGHT_PERCENT)).await?);
    rows.extend(rolling(&platform).await?);
    rows.extend(one_node(&platform).await?);
    Ok(rows)
}

/// Starts a control plane whose pods take their time.
async fn start(control_plane: Builder) -> anyhow::Result<Platform> {
    let control_plane = control_plane.pod_ready_after(TAKES).pod_gone_after(TAKES);
    Platform::start(PlatformOptions { control_plane, ..PlatformOptions::default() }).await
}

/// Drains nodes at once.
async fn at_once(platform: &Platform, nodes: Vec<String>, budget: Option<usize>) -> anyhow::Result<Vec<Row>> {
    let case = Case::at_once(nodes);
    let drained = async |tool| spread(platform, &case, tool, budget).await;
    let (ours, theirs) = (drained(Tool::Evacuate).await?, drained(Tool::Drain).await?);
    let protected =
        budget.map_or("without a budget".to_owned(), |part| format!("under a budget of {part} %"));
    let words = format!("{} of {PODS} pods {protected}", ours.pods);
    // Each batch ends, is replaced, and its replacements become ready, before the next one goes.
    let (floor, time) = budget.map_or((MEAN, Aim::Ratio(1.0)), |part| {
        let floor = (ours.pods / count((PODS * part).div_ceil(100))).ceil() * 2.0 * MEAN;
        (floor, Aim::Value(floor * 1.2))
    });
    let pair = Pair { bench: "drain", case: words, ours, theirs };
    let mut rows = pair.rows(floor, time);
    if budget.is_some() {
        rows.extend(pair.rows_of_the_budget());
    }
    Ok(rows)
}

/// Drains twelve nodes, four at a time.
async fn rolling(platform: &Platform) -> anyhow::Result<Vec<Row>> {
    let case = Case { nodes: names(1..=ROLLED), at_a_time: AT_A_TIME };
    let drained = async |tool| spread(platform, &case, tool, None).await;
    let (ours, theirs) = (drained(Tool::Evacuate).await?, drained(Tool::Drain).await?);
    let unmarked = drained(Tool::EvacuateGroups).await?;
    let words = format!("{ROLLED} of {NODES} nodes, {AT_A_TIME} at a time, {} of {PODS} pods", ours.pods);
    let moves = |drained: &Drained| drained.a_pod(drained.moves);
    let beside = Row::new("drain", format!("moves a pod, {words}"), "moves", moves(&ours))
        .beside("a NodeEvacuation for each group, so that no node has the taint", moves(&unmarked))
        .aim(Aim::Ratio(1.0));
    let floor = count(ROLLED.div_ceil(AT_A_TIME)) * MEAN;
    let mut rows = Pair { bench: "drain", case: words, ours, theirs }.rows(floor, Aim::Ratio(1.0));
    rows.push(beside);
    Ok(rows)
}

/// Drains one node with many pods.
async fn one_node(platform: &Platform) -> anyhow::Result<Vec<Row>> {
    let case = Case::at_once(names(1..=1));
    let mut drains = Vec::new();
    for tool in [Tool::Evacuate, Tool::Drain] {
        let mut workload = Workload::new(platform, tool.word()).await?;
        // All pods come to the only node that takes some.
        let others = names(2..=NODES);
        kubectl(platform, &["cordon"], &others).await?;
        workload.deploy(ON_ONE_NODE).await?;
        workload.ready().await?;
        kubectl(platform, &["uncordon"], &others).await?;
        drains.push(case.run(platform, &workload, tool).await?);
        workload.remove().await?;
    }
    let (Some(theirs), Some(ours)) = (drains.pop(), drains.pop()) else { return Ok(Vec::new()) };
    let words = format!("{} pods on one node", ours.pods);
    Ok(Pair { bench: "drain", case: words, ours, theirs }.rows(MEAN, Aim::Ratio(1.0)))
}

/// Deploys the pods over all nodes, drains, and removes the pods.
async fn spread(
    platform: &Platform,
    case: &Case,
    tool: Tool,
    budget: Option<usize>,
) -> anyhow::Result<Drained> {
    let mut workload = Workload::new(platform, tool.word()).await?;
    workload.deploy(PODS).await?;
    workload.ready().await?;
    if let Some(percent) = budget {
        workload.protect(percent).await?;
    }
    let drained = case.run(platform, &workload, tool).await?;
    workload.remove().await?;
    Ok(drained)
}

/// Names of nodes by their numbers.
fn names(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|number| format!("node-{number}")).collect()
}
