//! Probes of the evacuation API and of the controller's lease.
//!
//! They depend on no object of a tenant: the probe of the API lists the project's own namespace.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use evacuation_api::{Blindness, Evacuation};
use evacuation_protocol::{OutageCause, Proof, lease_renewed};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Resource};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cluster::Outages;

/// Interval between two probes.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time of a probe.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The two things that are probed.
pub(super) struct Probes {
    client: Client,
    /// Path of the project's own Evacuations.
    path: String,
    /// API and name of the controller's lease; `None` when no lease is to be looked at.
    lease: Option<(Api<Lease>, String)>,
    outages: Arc<Outages>,
}

impl Probes {
    /// Returns the probes in that namespace of the project. An empty `lease` is not looked at.
    pub(super) fn new(client: &Client, namespace: &str, lease: &str, outages: Arc<Outages>) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Self {
            client: client.clone(),
            path: Evacuation::url_path(&(), Some(namespace)),
            lease: (!lease.is_empty()).then(|| (api, lease.to_owned())),
            outages,
        }
    }

    /// Probes until the shutdown.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known = None;
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            tokio::join!(self.probe_api(), self.read_lease());
            let cause = self.outages.current(self.outages.now()).map(|outage| outage.cause);
            if std::mem::replace(&mut known, cause) != cause {
                match cause {
                    Some(OutageCause::Api) => {
                        warn!("the evacuation API does not answer: unanswered calls pass, answers hold");
                    }
                    Some(OutageCause::Leaderless) => {
                        warn!("no controller works: unanswered calls pass after a while, answers hold");
                    }
                    None => info!("the outage is over"),
                }
            }
        }
    }

    async fn probe_api(&self) {
        let sent = Instant::now();
        let reply = timeout(TIMEOUT, machinery_client::probe(&self.client, &self.path)).await.ok().flatten();
        if let Some((time, received)) = reply.as_ref().and_then(|it| Some((it.server_time?, it.received))) {
            self.outages.told(time, sent, received);
        }
        let proof = reply
            .and_then(|reply| Proof::of_reply(reply.status.as_u16(), reply.store_written, reply.server_time));
        self.outages.probed(proof, Instant::now());
    }

    /// Reads the lease. Without a reply nothing is known of it.
    async fn read_lease(&self) {
        let Some((api, name)) = &self.lease else { return };
        if let Ok(Ok(lease)) = timeout(TIMEOUT, api.get_opt(name)).await {
            let lease = lease.as_ref();
            let blindness = lease.and_then(Blindness::of);
            self.outages.lease_read(lease.and_then(lease_renewed), blindness, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// Path of the Evacuations of the project's own namespace.
    const OWN: &str = "/apis/evacuation.dev/v1alpha1/namespaces/evacuation-system/evacuations";
    /// HTTP code of a list of the own namespace; `None` for one that never comes.
    type Reply = Option<u16>;

    /// Probes an API as often as there are replies. Each other list fails, as where an object cannot be
    /// read. Returns the cause of the outage then.
    async fn outage_after(replies: &'static [Reply]) -> Option<OutageCause> {
        let last_write = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
        let outages = Arc::new(Outages::since(last_write));
        let mut left = replies.iter().copied();
        let service = tower::service_fn(move |request: Request<Body>| {
            let reply = if request.uri().path() == OWN { left.next().flatten() } else { Some(500) };
            async move {
                match reply {
                    Some(code) => {
                        Ok::<_, Infallible>(Response::builder().status(code).body(Body::empty()).unwrap())
                    }
                    None => std::future::pending().await,
                }
            }
        });
        let client = Client::new(service, "default");
        let probes = Probes::new(&client, "evacuation-system", "", Arc::clone(&outages));
        for _ in replies {
            probes.probe_api().await;
        }
        outages.current(outages.now()).map(|outage| outage.cause)
    }

    #[tokio::test(start_paused = true)]
    async fn neither_unreadable_lists_of_others_nor_a_late_one_of_the_own_namespace_are_an_outage() {
        let table: [(&[Reply], Option<OutageCause>, &str); 4] = [
            (&[Some(200); 3], None, "an object of a tenant cannot be read"),
            (&[None, None, Some(200)], None, "late, and then in time"),
            (&[None; 3], Some(OutageCause::Api), "the API hangs"),
            (&[Some(503); 3], Some(OutageCause::Api), "no server can serve"),
        ];
        for (replies, expected, case) in table {
            assert_eq!(outage_after(replies).await, expected, "{case}");
        }
    }
}
