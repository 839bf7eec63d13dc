//! A probe of the evacuation API. While that does not answer, the caches may be stale.

use std::{sync::Arc, time::Duration};

use evacuation_api::Evacuation;
use kube::{Api, Client, api::ListParams};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cluster::Cluster;

/// Interval between two probes.
const INTERVAL: Duration = Duration::from_secs(2);
/// Maximum time of a probe.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Probes the evacuation API until the shutdown.
pub(super) async fn probe(client: Client, cluster: Arc<Cluster>, shutdown: CancellationToken) {
    let api: Api<Evacuation> = Api::all(client);
    let first = ListParams::default().limit(1);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let answered = matches!(timeout(TIMEOUT, api.list(&first)).await, Ok(Ok(_)));
        if cluster.note_api(answered) {
            if answered {
                info!("the evacuation API answers again");
            } else {
                warn!("the evacuation API does not answer: calls pass unasked");
            }
        }
    }
}
