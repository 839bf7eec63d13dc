//! The process: its parts, how they start, and how they end.

mod client;
mod logging;
mod options;
mod signal;

use std::{path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::{net::TcpListener, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use uuid::Uuid;

pub use logging::log;
pub use options::{LogFormat, Options};
pub use signal::shutdown_signal;

use crate::{
    Leadership,
    controller::Controller,
    events::{EventSink, publish_events},
    lease::hold_lease,
    metrics::serve_metrics,
    push::Pusher,
    refresh::Refresher,
    watch,
};

/// How long the attempts that are under way may take to be recorded when the process ends.
const DRAIN: Duration = Duration::from_millis(1500);
/// How long the lease may take to be given back.
const RELEASE: Duration = Duration::from_secs(4);

/// Why the controller could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kubeconfig cannot be read.
    #[error("kubeconfig {} cannot be read", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no kubeconfig and no service account.
    #[error("no --kubeconfig is given, and the process is in no cluster")]
    InCluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The client cannot be made.
    #[error("the client of the API cannot be made")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The client for pushes cannot be made.
    #[error("the client for questions to apps cannot be made")]
    Push(#[source] reqwest::Error),
    /// The address for metrics is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Runs the controller until `shutdown`: watches, leads when it gets the lease, and acts while it leads.
///
/// Installs rustls' ring provider unless the process has one.
///
/// # Errors
///
/// The options do not lead to a client or a listener. What fails later is tried again.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    // An error means that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client::client(options.kubeconfig.as_deref()).await?;
    let listener = TcpListener::bind(options.metrics_address)
        .await
        .map_err(|source| RunError::Listen { address: options.metrics_address, source })?;
    let pusher = Pusher::new(client.clone(), options.push_allow_cidr.clone(), options.push_per_endpoint)
        .map_err(RunError::Push)?;
    let identity = identity();
    let leadership = if options.leader_elect { Leadership::standby() } else { Leadership::alone() };
    let (events, waiting) = EventSink::new();
    let controller = Controller::new(client.clone(), leadership.clone(), pusher, events)
        .with_refresher(Refresher::new(&options.refresh));
    let controller = Arc::new(controller);

    let background = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve_metrics(listener, Arc::clone(&controller), background.clone()));
    tasks.spawn(publish_events(client.clone(), identity.clone(), waiting, background.clone()));
    tasks.spawn(watch::probe(Arc::clone(&controller), background.clone()));
    watch::follow_all(&controller, &background, &mut tasks);
    let mut lease = JoinSet::new();
    let give_back = CancellationToken::new();
    if options.leader_elect {
        let api: Api<Lease> = Api::namespaced(client, &options.lease_namespace);
        lease.spawn(hold_lease(api, options.lease_name, identity, leadership.clone(), give_back.clone()));
    }

    lead(&controller, &leadership, options.workers, &shutdown).await;

    give_back.cancel();
    if timeout(RELEASE, async { while lease.join_next().await.is_some() {} }).await.is_err() {
        warn!("the lease was not given back in time");
    }
    background.cancel();
    tasks.shutdown().await;
    Ok(())
}

/// Acts whenever this process leads, until `shutdown`.
async fn lead(
    controller: &Arc<Controller>,
    leadership: &Leadership,
    workers: usize,
    shutdown: &CancellationToken,
) {
    let mut leads = leadership.subscribe();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            started = leads.wait_for(|leads| *leads) => if started.is_err() { return },
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = controller.synced() => {}
        }
        let term = CancellationToken::new();
        controller.start_term(term.clone());
        info!("acting");
        let stop = CancellationToken::new();
        let mut workers = controller.spawn_workers(workers, &stop);
        let lost = tokio::select! {
            () = shutdown.cancelled() => false,
            _ = leads.wait_for(|leads| !*leads) => true,
        };
        stop.cancel();
        if lost {
            term.cancel();
            workers.shutdown().await;
        } else {
            let finish = async {
                while workers.join_next().await.is_some() {}
                controller.drain().await;
            };
            if timeout(DRAIN, finish).await.is_err() {
                warn!("some attempts were not recorded in time; the next leader resolves them");
            }
            term.cancel();
            workers.shutdown().await;
        }
        controller.end_term();
        info!("no longer acting");
    }
}

/// Tells this process from every other, also from others on its host.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    format!("{}_{}", host.as_deref().unwrap_or("evacuation-controller"), Uuid::new_v4())
}
