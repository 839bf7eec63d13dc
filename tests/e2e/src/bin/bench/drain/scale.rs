//! Growth of the cost of a drain with the cluster.
//!
//! The cluster grows to 1,000, 5,000 and 15,000 pods, 30 on a node. At each size the nodes with the most
//! pods, 300 pods together, are drained at once, three times by each tool. So only the number of pods that
//! are watched differs. The medians are reported and drawn.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use controlplane::ControlPlane;
use evacuation_e2e::Platform;
use tokio::time::{Instant, sleep};

use super::{
    MEAN,
    case::{Case, Drained, count},
    figures::PEER,
    plot::{Chart, Line, svg},
    processes::{Meter, Part, controller_memory},
    start,
    tool::Tool,
    workload::Workload,
};
use crate::report::{Aim, Row};

/// Numbers of pods in the cluster.
const SIZES: [usize; 3] = [1_000, 5_000, 15_000];
/// Number of pods on a node.
const PODS_A_NODE: usize = 30;
/// Number of replicas of a Deployment.
const REPLICAS: usize = 500;
/// Number of pods that are drained at once.
const DRAINED: usize = 300;
/// Number of drains by each tool at each size.
const ROUNDS: usize = 3;
/// Time between looks at an idle controller, and the CPU time in seconds that an idle one uses at most in it.
const QUIET: Duration = Duration::from_secs(2);
const IDLE: f64 = 0.05;
/// Time limit for the controller to become idle.
const LONGEST: Duration = Duration::from_mins(2);
/// Time without a heartbeat after which a node counts as lost. Those of 500 nodes are late while the pods are
/// created.
const PATIENCE_WITH_NODES: &str = "--node-monitor-grace-period=10m";
/// File of the plot.
const SVG: &str = "target/drain-scale.svg";
/// The processes of ours that run beside the cluster.
const OURS: [Part; 2] = [Part::Controller, Part::ApiServer];

/// Options of the benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct Scale {
    /// File of the plot of drain-scale, by default target/drain-scale.svg.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Maximum number of pods in drain-scale, by default 15000. Larger clusters are left out.
    #[arg(long, value_name = "PODS")]
    max_pods: Option<usize>,
}

/// The figures of a cluster of one size.
struct Size {
    pods: usize,
    nodes: usize,
    /// Time to create and start the pods that the size before did not have, in seconds.
    growth: f64,
    /// Resident memory of the idle controller in KiB. It is measured after the drains, for the first ones
    /// leave memory that the process keeps.
    memory: f64,
    ours: Vec<Drained>,
    theirs: Vec<Drained>,
}

/// Runs the benchmark.
pub(crate) async fn run(options: Scale) -> anyhow::Result<Vec<Row>> {
    let most = options.max_pods.unwrap_or(usize::MAX);
    let sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= most).collect();
    let patient = ControlPlane::builder().nodes(0).controller_manager_args(&[PATIENCE_WITH_NODES]);
    let platform = start(patient).await?;
    let mut workload = Workload::new(&platform, "scale").await?;
    let mut measured: Vec<Size> = Vec::new();
    for pods in sizes {
        let before = measured.last().map_or((0, 0), |size| (size.pods, size.nodes));
        let size = Size::measure(&platform, &mut workload, before, pods).await?;
        eprintln!("{pods} pods on {} nodes were ready after {:.0} s", size.nodes, size.growth);
        measured.push(size);
    }
    let path = options.svg.unwrap_or_else(|| SVG.into());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    fs::write(&path, svg(&charts(&measured)))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    eprintln!("plot: {}", path.display());
    Ok(rows(&measured))
}

impl Size {
    /// Makes the cluster as large as that, and drains.
    async fn measure(
        platform: &Platform,
        workload: &mut Workload,
        (pods_before, nodes_before): (usize, usize),
        pods: usize,
    ) -> anyhow::Result<Self> {
        let (start, nodes) = (Instant::now(), pods.div_ceil(PODS_A_NODE));
        platform.control_plane().add_nodes(nodes - nodes_before).await?;
        for _ in 0..(pods - pods_before) / REPLICAS {
            workload.deploy(REPLICAS).await?;
        }
        workload.ready().await?;
        let growth = start.elapsed().as_secs_f64();
        settle(platform).await?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (tool, drains) in [(Tool::Evacuate, &mut ours), (Tool::Drain, &mut theirs)] {
                let case = Case::at_once(fullest(&workload.nodes_of_pods().await?));
                drains.push(case.run(platform, workload, tool).await?);
                workload.restore().await?;
                settle(platform).await?;
            }
        }
        let memory = controller_memory(platform)?;
        Ok(Self { pods, nodes, growth, memory, ours, theirs })
    }

    /// Returns the median of a figure of our drains.
    fn ours(&self, of: impl Fn(&Drained) -> f64) -> f64 {
        median(self.ours.iter().map(of).collect())
    }

    /// Returns the median of a figure of the peer's drains.
    fn theirs(&self, of: impl Fn(&Drained) -> f64) -> f64 {
        median(self.theirs.iter().map(of).collect())
    }

    fn row(&self, what: &str, unit: &'static str, value: f64) -> Row {
        let case = format!("{what}, {DRAINED} of {} pods on {} nodes", self.pods, self.nodes);
        Row::new("drain-scale", case, unit, value)
    }

    fn both(&self, what: &str, unit: &'static str, of: impl Fn(&Drained) -> f64) -> Row {
        self.row(what, unit, self.ours(&of)).beside(PEER, self.theirs(&of))
    }
}

/// Returns the milliseconds of CPU time for each pod that was drained.
fn cpu(parts: &[Part]) -> impl Fn(&Drained) -> f64 {
    move |drained| drained.a_pod(drained.costs.cpu(parts)) * 1000.0
}

fn rows(sizes: &[Size]) -> Vec<Row> {
    let mut rows = Vec::new();
    let Some(first) = sizes.first() else { return rows };
    for size in sizes {
        let floor = format!("wall time (floor {MEAN} s)");
        let requests = |drained: &Drained| drained.a_pod(count(drained.requests.all()));
        rows.extend([
            size.row("time to create and start the pods", "s", size.growth),
            size.row("memory of evacuation-controller", "MiB", size.memory / 1024.0),
            size.both(&floor, "s", |drained| drained.seconds).aim(Aim::Ratio(1.0)),
            size.both("failed drains", "drains", |drained| drained.failed).aim(Aim::Value(0.0)),
            size.both("requests a pod", "requests", requests).aim(Aim::Ratio(1.0)),
        ]);
        rows.extend(
            Part::ALL
                .map(|part| size.both(&format!("CPU of {} a drained pod", part.words()), "ms", cpu(&[part]))),
        );
        rows.push(size.both("CPU of all of these a drained pod", "ms", cpu(&Part::ALL)));
        let grown = size.row("CPU of controller and API server a drained pod", "ms", size.ours(cpu(&OURS)));
        rows.push(
            grown.beside("the same in the smallest cluster", first.ours(cpu(&OURS))).aim(Aim::Ratio(1.2)),
        );
    }
    if let Some(last) = sizes.last().filter(|last| last.pods > first.pods) {
        let slope = (last.memory - first.memory) / count(last.pods - first.pods);
        let case =
            format!("memory of evacuation-controller a watched pod, {} to {} pods", first.pods, last.pods);
        rows.push(Row::new("drain-scale", case, "KiB", slope).aim(Aim::Value(20.0)));
    }
    rows
}

fn charts(sizes: &[Size]) -> Vec<Chart> {
    let line = |name, of: &dyn Fn(&Size) -> f64| Line {
        name,
        points: sizes.iter().map(|size| (count(size.pods), of(size))).collect(),
    };
    let chart =
        |title: &str, lines, band| Chart { title: title.to_owned(), axis: "watched pods", lines, band };
    let ours = |parts: &'static [Part]| move |size: &Size| size.ours(cpu(parts));
    let first = sizes.first().map(ours(&OURS));
    vec![
        chart(
            &format!("CPU time a drained pod in ms, {DRAINED} pods drained"),
            vec![
                line("together", &ours(&OURS)),
                line("controller", &ours(&[Part::Controller])),
                line("API server", &ours(&[Part::ApiServer])),
            ],
            first.map(|first| (first * 0.8, first * 1.2, "within 20 % of the smallest cluster")),
        ),
        chart(
            "CPU time of all processes a drained pod in ms",
            vec![line("evacuate", &ours(&Part::ALL)), line(PEER, &|size| size.theirs(cpu(&Part::ALL)))],
            None,
        ),
        chart(
            "Memory of the controller in MiB",
            vec![line("controller", &|size| size.memory / 1024.0)],
            None,
        ),
    ]
}

/// Returns the nodes with the most pods, as many as have the pods that are to be drained.
fn fullest(nodes_of_pods: &[String]) -> Vec<String> {
    let mut numbers: BTreeMap<&String, usize> = BTreeMap::new();
    for node in nodes_of_pods {
        *numbers.entry(node).or_default() += 1;
    }
    let mut nodes: Vec<(&String, usize)> = numbers.into_iter().collect();
    nodes.sort_by_key(|(_, pods)| std::cmp::Reverse(*pods));
    let mut left = DRAINED;
    let picked = nodes.into_iter().take_while(|(_, pods)| {
        let wanted = left > 0;
        left = left.saturating_sub(*pods);
        wanted
    });
    picked.map(|(node, _)| node.clone()).collect()
}

/// Waits until the controller is idle.
async fn settle(platform: &Platform) -> anyhow::Result<()> {
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        let meter = Meter::start(platform)?;
        sleep(QUIET).await;
        if meter.stop().await?.of(Part::Controller).cpu <= IDLE {
            return Ok(());
        }
    }
    eprintln!("the controller was not idle within {LONGEST:?}");
    Ok(())
}

/// Returns the value in the middle; 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_nodes_are_picked_until_they_have_the_pods() {
        let pods = |node: &str, number| std::iter::repeat_n(node.to_owned(), number);
        let all: Vec<String> = pods("a", 100).chain(pods("b", 250)).chain(pods("c", 150)).collect();
        assert_eq!(fullest(&all), ["b", "c"]);
        assert_eq!(fullest(&all[..100]), ["a"]);
    }

    #[test]
    fn the_median_is_the_value_in_the_middle() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).abs() < f64::EPSILON);
    }
}
