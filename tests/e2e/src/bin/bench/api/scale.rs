//! Memory with 50,000 objects, and the time of a start.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use controlplane::Process;

use super::{
    BENCH,
    contestant::{Contestant, PEERS},
    reads,
};
use crate::report::{Aim, Row};

/// Number of objects.
const OBJECTS: usize = 50_000;
/// Interval of the questions whether a server is ready.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// Maximum time of a start.
const PATIENCE: Duration = Duration::from_mins(1);
/// Maximum memory, as a share of the peer's.
const TENTH: f64 = 0.1;
/// Maximum time of a start in milliseconds: of an empty server, and of one with 50,000 objects.
const START_MILLIS: (f64, f64) = (100.0, 1000.0);

/// Figures of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    memory_mib: f64,
    /// Time of a start when empty and with all objects, in milliseconds; `None` for a server that is not
    /// started again.
    start_millis: Option<(f64, f64)>,
    /// Memory after that start in MiB.
    started_mib: Option<f64>,
}

/// Measures a server that has no objects, and removes its objects again.
pub(super) async fn measure(server: &mut Contestant, process: Option<&Process>) -> anyhow::Result<Scale> {
    let empty = match process {
        Some(process) => Some(start(server, process).await?),
        None => None,
    };
    reads::fill(server, OBJECTS).await?;
    let memory_mib = server.memory()?;
    let (mut full, mut started_mib) = (None, None);
    if let Some(process) = process {
        full = Some(start(server, process).await?);
        started_mib = Some(server.memory()?);
    }
    reads::remove_all(server).await?;
    Ok(Scale { memory_mib, start_millis: empty.zip(full), started_mib })
}

/// Kills the process and starts it again. Returns the time until it is ready, in milliseconds.
async fn start(server: &mut Contestant, process: &Process) -> anyhow::Result<f64> {
    process.kill()?;
    // Made before, and used for all questions: the server needs the cores.
    let client = server.client_without_retries()?;
    let began = Instant::now();
    process.start()?;
    server.follow(process)?;
    while server.ready(&client).await.is_err() {
        if began.elapsed() > PATIENCE {
            bail!("{} is not ready", process.name());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// Returns the rows, ours beside each peer's.
pub(super) fn rows(ours: &Scale, peers: &[Scale; 2]) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let (own_empty, own_full) = ours.start_millis.context("our server was started again")?;
    for (peer, name) in peers.iter().zip(PEERS) {
        let row = |case: &str, unit, own, other| Row::new(BENCH, case, unit, own).beside(name, other);
        let memory =
            row("memory with 50,000 objects, as they were created", "MiB", ours.memory_mib, peer.memory_mib);
        rows.push(memory.aim(Aim::Ratio(TENTH)));
        if let (Some(own), Some(other)) = (ours.started_mib, peer.started_mib) {
            let memory = row("memory with 50,000 objects, after a start", "MiB", own, other);
            rows.push(memory.aim(Aim::Ratio(TENTH)));
        }
        if let Some((empty, full)) = peer.start_millis {
            let (most_empty, most_full) = START_MILLIS;
            rows.push(row("ready after a start, empty", "ms", own_empty, empty).aim(Aim::Value(most_empty)));
            let case = "ready after a start, 50,000 objects";
            rows.push(row(case, "ms", own_full, full).aim(Aim::Value(most_full)));
        }
    }
    Ok(rows)
}
