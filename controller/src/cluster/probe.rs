//! Probe of the API: whether it answers, whether its store takes writes, and what time it is there.

use std::time::{Duration, Instant};

use evacuation_api::Evacuation;
use evacuation_protocol::Proof;
use kube::Resource;
use machinery_client::ProbeReply;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Cluster;

/// Pause between two probes: short, so that nothing is a second late when the server's clock is set.
const EVERY: Duration = Duration::from_millis(800);
/// Maximum time of one probe. A single one that is lost is no interruption: with the pauses around it, it
/// takes less than the 5 s that are tolerated.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Probes the API until `stop`, so that outages and jumps of its clock are noticed also while no other
/// request is due. It lists the project's own namespace, in which no tenant writes.
pub(crate) async fn probe(cluster: Cluster, namespace: String, stop: CancellationToken) {
    let path = Evacuation::url_path(&(), Some(&namespace));
    let mut interrupted = false;
    loop {
        let sent = Instant::now();
        let reply = timeout(TIMEOUT, machinery_client::probe(&cluster.client, &path)).await.ok().flatten();
        let proved = reply.as_ref().and_then(|reply| Some((reply, proof(reply)?)));
        match proved {
            Some((reply, proof)) => {
                cluster.store_recovered(reply.recovered_ago, reply.received);
                cluster.api_answered(reply.server_time, proof, sent, reply.received);
            }
            None => cluster.api_failed(Instant::now()),
        }
        let now = Instant::now();
        if cluster.reachability().is_interrupted(now) != interrupted {
            interrupted = !interrupted;
            if interrupted && proved.is_none() {
                warn!("evacuation API: no reply, waiting for it");
            } else if interrupted {
                warn!("evacuation API: its store takes no writes, only deadlines act");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

fn proof(reply: &ProbeReply) -> Option<Proof> {
    Proof::of_reply(reply.status.as_u16(), reply.store_written, reply.server_time)
}
