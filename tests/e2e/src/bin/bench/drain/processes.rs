//! CPU time and peak memory of the processes that take part in a drain.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context;
use controlplane::Process;
use evacuation_e2e::Platform;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::proc_files::{Stat, children, proportional, resident};

/// Interval between looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A process that takes part, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Controller,
    ApiServer,
    ApiServerEtcd,
    Kubectl,
    KubeApiserver,
}

impl Part {
    /// All of them, in the order in which they are reported.
    pub(super) const ALL: [Self; 5] =
        [Self::Controller, Self::ApiServer, Self::ApiServerEtcd, Self::Kubectl, Self::KubeApiserver];

    /// Returns the words for it in the case of a row.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Controller => "evacuation-controller",
            Self::ApiServer => "evacuation-apiserver",
            Self::ApiServerEtcd => "etcd of evacuation-apiserver",
            Self::Kubectl => "all kubectl processes",
            Self::KubeApiserver => "kube-apiserver",
        }
    }
}

/// CPU time and peak memory of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// CPU time in seconds.
    pub(super) cpu: f64,
    /// Peak of the resident memory in MiB, from looks every 100 ms. Pages that several kubectl processes
    /// share count once.
    pub(super) memory: f64,
}

/// Costs of all parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs(BTreeMap<Part, Cost>);

impl Costs {
    /// Returns the cost of one part.
    pub(super) fn of(&self, part: Part) -> Cost {
        self.0.get(&part).copied().unwrap_or_default()
    }

    /// Returns the CPU time of several parts.
    pub(super) fn cpu(&self, parts: &[Part]) -> f64 {
        parts.iter().map(|&part| self.of(part).cpu).sum()
    }
}

/// A measurement in progress.
#[derive(Debug)]
pub(super) struct Meter {
    servers: BTreeMap<Part, String>,
    before: BTreeMap<Part, f64>,
    peaks: JoinHandle<BTreeMap<Part, f64>>,
    stop: CancellationToken,
}

impl Meter {
    /// Begins to measure.
    ///
    /// # Errors
    ///
    /// Fails when a process does not run.
    pub(super) fn start(platform: &Platform) -> anyhow::Result<Self> {
        let mut servers = BTreeMap::from([
            (Part::ApiServer, number(platform.apiserver())?),
            (Part::Controller, controller(platform)?),
            (Part::KubeApiserver, number(platform.control_plane().apiserver().process())?),
        ]);
        if let Some(etcd) = platform.etcd() {
            servers.insert(Part::ApiServerEtcd, number(etcd.component().process())?);
        }
        let before = cpu_of_all(&servers)?;
        let stop = CancellationToken::new();
        let peaks = tokio::spawn(peaks(servers.clone(), stop.clone()));
        Ok(Self { servers, before, peaks, stop })
    }

    /// Ends the measurement. The kubectl processes have been waited for by then.
    ///
    /// # Errors
    ///
    /// Fails when a process has ended.
    pub(super) async fn stop(self) -> anyhow::Result<Costs> {
        let after = cpu_of_all(&self.servers)?;
        self.stop.cancel();
        let peaks = self.peaks.await.context("the memory was not measured")?;
        let cost = |(part, cpu): (Part, f64)| {
            let before = self.before.get(&part).copied().unwrap_or_default();
            let memory = peaks.get(&part).copied().unwrap_or_default() / 1024.0;
            (part, Cost { cpu: cpu - before, memory })
        };
        Ok(Costs(after.into_iter().map(cost).collect()))
    }
}

/// Returns the resident memory of the controller in KiB.
///
/// # Errors
///
/// Fails when it does not run.
pub(super) fn controller_memory(platform: &Platform) -> anyhow::Result<f64> {
    resident(&controller(platform)?)
}

fn controller(platform: &Platform) -> anyhow::Result<String> {
    number(platform.controllers().first().context("the platform has no controller")?)
}

fn number(process: &Process) -> anyhow::Result<String> {
    let number = process.pid().with_context(|| format!("{} does not run", process.name()))?;
    Ok(number.to_string())
}

/// CPU time so far. This process starts nothing but kubectl that ends, so its ended children are that.
fn cpu_of_all(servers: &BTreeMap<Part, String>) -> anyhow::Result<BTreeMap<Part, f64>> {
    let mut cpu = BTreeMap::from([(Part::Kubectl, Stat::of("self")?.cpu_of_ended_children)]);
    for (part, process) in servers {
        cpu.insert(*part, Stat::of(process)?.cpu);
    }
    Ok(cpu)
}

/// Looks at the memory until `stop`, and returns the peaks in KiB.
async fn peaks(servers: BTreeMap<Part, String>, stop: CancellationToken) -> BTreeMap<Part, f64> {
    let mut peaks: BTreeMap<Part, f64> = BTreeMap::new();
    let mut tick = interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        // A process that has ended has no memory.
        let servers = servers.iter().map(|(part, process)| (*part, resident(process).unwrap_or_default()));
        let kubectl = children("kubectl").iter().filter_map(|process| proportional(process).ok()).sum();
        for (part, memory) in servers.chain([(Part::Kubectl, kubectl)]) {
            let peak = peaks.entry(part).or_default();
            *peak = peak.max(memory);
        }
    }
    peaks
}
