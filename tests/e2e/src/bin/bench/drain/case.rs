//! One drain: the nodes, the tool, and the figures.

use std::collections::BTreeSet;

use anyhow::ensure;
use controlplane::output_of;
use evacuation_e2e::Platform;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use super::{
    processes::{Costs, Meter},
    requests::{Requests, evicted},
    timeline::Timeline,
    tool::Tool,
    workload::Workload,
};

/// Nodes to drain.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Names of the nodes.
    pub(super) nodes: Vec<String>,
    /// Number of nodes that are drained at a time.
    pub(super) at_a_time: usize,
}

/// Figures of one drain.
#[derive(Debug)]
pub(super) struct Drained {
    /// Wall time in seconds.
    pub(super) seconds: f64,
    /// Number of pods that were on the nodes.
    pub(super) pods: f64,
    /// Number of evictions that succeeded. A pod whose replacement was evicted again counts twice.
    pub(super) moves: f64,
    /// Number of drains that failed.
    pub(super) failed: f64,
    /// Requests of those that drain.
    pub(super) requests: Requests,
    /// Times of the evictions.
    pub(super) timeline: Timeline,
    /// CPU time and memory of the processes.
    pub(super) costs: Costs,
}

impl Drained {
    /// Returns a number for each pod that was on the nodes.
    pub(super) fn a_pod(&self, number: f64) -> f64 {
        number / self.pods
    }
}

impl Case {
    /// Returns the drain of all these nodes at once.
    pub(super) fn at_once(nodes: Vec<String>) -> Self {
        Self { at_a_time: nodes.len(), nodes }
    }

    /// Drains the nodes, and makes the nodes as they were before.
    ///
    /// # Errors
    ///
    /// Fails when something cannot be measured. A drain that fails is a figure.
    pub(super) async fn run(
        &self,
        platform: &Platform,
        workload: &Workload,
        tool: Tool,
    ) -> anyhow::Result<Drained> {
        let nodes: BTreeSet<&String> = self.nodes.iter().collect();
        let on_nodes = workload.nodes_of_pods().await?.iter().filter(|node| nodes.contains(node)).count();
        let mark = platform.control_plane().audit_mark()?;
        let meter = Meter::start(platform)?;
        let start = Instant::now();
        let failed = self.drain(platform, tool).await?;
        let seconds = start.elapsed().as_secs_f64();
        let costs = meter.stop().await?;
        let log = platform.control_plane().audit_events_since(mark)?;
        self.give_back(platform).await?;
        Ok(Drained {
            seconds,
            pods: count(on_nodes),
            moves: count(evicted(&log)),
            failed: count(failed),
            requests: Requests::of(&log),
            timeline: Timeline::of(&log, workload.namespace()),
            costs,
        })
    }

    /// Runs the tool's commands, and returns the number of those that failed.
    async fn drain(&self, platform: &Platform, tool: Tool) -> anyhow::Result<usize> {
        let mut failed = 0;
        for batch in tool.batches(&self.nodes, self.at_a_time) {
            let runs = stream::iter(&batch).map(async |arguments| {
                let mut command = platform.kubectl_command();
                command.args(arguments);
                output_of("kubectl", command).await
            });
            for output in runs.buffer_unordered(batch.len()).collect::<Vec<_>>().await {
                let output = output?;
                if !output.success() {
                    failed += 1;
                    let said = output.stderr.lines().last().unwrap_or_default();
                    eprintln!("{} failed: {said}", tool.word());
                }
            }
        }
        Ok(failed)
    }

    /// Deletes the drains, and uncordons the nodes.
    async fn give_back(&self, platform: &Platform) -> anyhow::Result<()> {
        kubectl(platform, &["delete", "nodeevacuations", "--all"], &[]).await?;
        kubectl(platform, &["uncordon"], &self.nodes).await
    }
}

/// Runs kubectl with these words and names.
///
/// # Errors
///
/// Fails when kubectl does.
pub(super) async fn kubectl(platform: &Platform, words: &[&str], names: &[String]) -> anyhow::Result<()> {
    let arguments: Vec<&str> = words.iter().copied().chain(names.iter().map(String::as_str)).collect();
    let output = platform.kubectl(&arguments).await?;
    ensure!(output.success(), "kubectl {words:?}: {}", output.stderr);
    Ok(())
}

/// Returns a number as one that can be divided.
pub(super) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
