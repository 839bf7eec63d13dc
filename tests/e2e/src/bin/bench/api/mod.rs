//! Cost and rate of the API server's verbs. Its peers are a custom resource of the same shape in the
//! kube-apiserver, and Kubernetes' sample API server. Each keeps its objects in an etcd. Each is called
//! directly by an administrator, whose rights none of them has to ask for.

mod contestant;
mod kinds;
mod load;
mod raw;
mod reads;
mod sample;
mod scale;

use anyhow::Context;
use controlplane::ControlPlane;
use evacuation_e2e::{Platform, PlatformOptions};

use self::{
    contestant::Contestant,
    load::{Figures, Verb},
};
use crate::report::{Aim, Row};

/// Name of the benchmark in its rows.
const BENCH: &str = "api";
/// Numbers of clients that call at once.
const CLIENTS: [usize; 3] = [1, 16, 64];
/// Maximum of the CPU of a call, as a share of the peer's.
const CPU: f64 = 0.25;
/// Minimum rate of 64 clients, as a multiple of the peer's.
const RATE: f64 = 2.5;

/// Runs the benchmark.
pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let limits = [
        "--max-objects-per-namespace=1000000",
        "--max-bytes-per-namespace=1000000000",
        "--max-responders-per-namespace=1000000",
        "--max-responder-bytes-per-namespace=1000000000",
        "--max-bytes=1000000000",
    ];
    let options = PlatformOptions {
        control_plane: ControlPlane::builder(),
        apiserver_args: limits.map(str::to_owned).to_vec(),
        ..PlatformOptions::default()
    };
    let platform = Platform::start(options).await?;
    contestant::make_namespace(&platform).await?;
    let mut ours = Contestant::ours(&platform).await.context("our API server")?;
    let mut custom = Contestant::custom_resource(&platform).await.context("the custom resource")?;
    let (mut sample, running) = sample::start(&platform).await.context("the sample API server")?;
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let raw = raw::measure(&platform, clients).await?;
        let ours = load::measure(&ours, clients).await?;
        let peers = [load::measure(&custom, clients).await?, load::measure(&sample, clients).await?];
        rows.extend(calls(clients, &ours, &peers));
        rows.extend(raw::rows(clients, &ours, raw));
    }
    let own = reads::measure(&ours).await?;
    let peers = [reads::measure(&custom).await?, reads::measure(&sample).await?];
    rows.extend(reads::rows(&own, &peers));
    let own = scale::measure(&mut ours, Some(platform.apiserver())).await?;
    let peers = [
        scale::measure(&mut custom, None).await?,
        scale::measure(&mut sample, Some(running.process())).await?,
    ];
    rows.extend(scale::rows(&own, &peers)?);
    Ok(rows)
}

/// Returns the rows of the calls, ours beside each peer's.
fn calls(clients: usize, ours: &Figures, peers: &[Figures; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (peer, name) in peers.iter().zip(contestant::PEERS) {
        for verb in Verb::ALL {
            let (own, other) = (ours.of(verb), peer.of(verb));
            let case = |what| format!("{what}, {}, {clients} clients", verb.name());
            let cpu = Row::new(BENCH, case("server CPU a call"), "us", own.cpu_micros);
            let rate = Row::new(BENCH, case("calls a second"), "1/s", own.rate).higher();
            let aim = if clients == 64 { RATE } else { 1.0 };
            rows.push(cpu.beside(name, other.cpu_micros).aim(Aim::Ratio(CPU)));
            rows.push(rate.beside(name, other.rate).aim(Aim::RatioAtLeast(aim)));
        }
    }
    rows
}
