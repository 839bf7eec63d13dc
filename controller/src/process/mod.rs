//! The process: its parts, its start and its end.

mod client;
mod feature_set;
mod options;
mod signal;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use machinery_client::ConnectError;
use tokio::{net::TcpListener, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use uuid::Uuid;

pub use feature_set::FeatureSet;
pub use options::Options;
pub use signal::shutdown_signal;

use crate::{
    annotation_check::AnnotationCheck,
    bridges::bridges,
    builtin::{Gate, Surge},
    cluster::{
        Cluster, EventSink, Feature, Kind, LAST_EVENTS, Leadership, Probe, follow_kinds, hold_lease, probe,
        publish_events, reporter, required_names, serve_metrics, spawn_resync, spawn_workers,
    },
    drain::{Drains, NodeMarks},
    eviction_request::EvictionRequests,
    negotiation::{Negotiation, Pusher},
    pod_group::PodGroups,
    refresh::Refresher,
    rule::Rules,
    unasked::Unasked,
};

/// Maximum time for recording the attempts in progress when the process ends.
const DRAIN: Duration = Duration::from_millis(1500);
/// Maximum time for giving the lease back.
const RELEASE: Duration = Duration::from_secs(4);

/// Reason for which the controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no client for the API.
    #[error(transparent)]
    Client(#[from] ConnectError),
    /// The client for pushes cannot be made.
    #[error("the client for questions to apps cannot be made")]
    Push(#[source] reqwest::Error),
    /// The listener for metrics cannot be opened.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
}

/// Runs the controller until `shutdown`. It watches, and acts while it holds the lease.
///
/// Installs rustls' ring provider unless the process has one.
///
/// # Errors
///
/// The options lead to no client or to no listener. Later failures are retried.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    // An error means that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = client::client(options.kubeconfig.as_deref(), options.feature_set.agent()).await?;
    let listener = TcpListener::bind(options.metrics_address)
        .await
        .map_err(|source| RunError::Listen { address: options.metrics_address, source })?;
    let program = options.feature_set.program();
    let identity = identity(program);
    let leadership = if options.leader_elect { Leadership::standby() } else { Leadership::alone() };
    let events = EventSink::default();
    let cluster = Cluster::new(client.clone(), leadership.clone(), events.clone());
    let pusher = Pusher::new(&cluster, options.push_allow_cidr.clone(), options.push_per_endpoint)
        .map_err(RunError::Push)?;
    let features = features(&cluster, pusher, &options);
    cluster.features.register(&features);
    cluster.stand_by();
    let required = required_names(&features);

    let background = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let probed = Arc::new(Probe::new(cluster.clone(), required.clone()));
    tasks.spawn(serve_metrics(listener, probed, background.clone()));
    let publisher = tokio::spawn(publish_events(
        client.clone(),
        reporter(program, identity.clone()),
        events.published(),
        background.clone(),
    ));
    tasks.spawn(probe(cluster.clone(), options.lease_namespace.clone(), background.clone()));
    let kinds: BTreeSet<Kind> = features.iter().flat_map(|feature| feature.watches()).copied().collect();
    follow_kinds(&cluster, &kinds, &background, &mut tasks);
    for feature in &features {
        Arc::clone(feature).follow(&background, &mut tasks);
    }
    let mut lease = JoinSet::new();
    let give_back = CancellationToken::new();
    if options.leader_elect {
        let api: Api<Lease> = Api::namespaced(client, &options.lease_namespace);
        let (readiness, names, holder) = (Arc::clone(&cluster.readiness), required.clone(), identity.clone());
        lease.spawn(hold_lease(
            api,
            options.lease_name.unwrap_or_else(|| program.to_owned()),
            identity,
            leadership.clone(),
            Arc::clone(&cluster.clock),
            Box::new(move |recorded| readiness.statement(&names, &holder, recorded)),
            give_back.clone(),
        ));
    }

    lead(&cluster, &features, &required, &shutdown).await;

    give_back.cancel();
    if timeout(RELEASE, async { while lease.join_next().await.is_some() {} }).await.is_err() {
        warn!("the lease was not given back in time");
    }
    background.cancel();
    // The publisher ends by itself.
    if timeout(LAST_EVENTS * 2, publisher).await.is_err() {
        warn!("the publisher of events did not end in time");
    }
    tasks.shutdown().await;
    Ok(())
}

/// Returns the features of the process. A new feature is one line here.
fn features(cluster: &Cluster, pusher: Pusher, options: &Options) -> Vec<Arc<dyn Feature>> {
    if options.feature_set == FeatureSet::BuiltInResponders {
        return vec![Surge::new(cluster), Gate::new(cluster)];
    }
    let mut features: Vec<Arc<dyn Feature>> = vec![
        Negotiation::new(cluster, pusher, options.workers),
        Drains::new(cluster),
        NodeMarks::new(cluster),
        Rules::new(cluster),
        PodGroups::new(cluster),
        AnnotationCheck::new(cluster, options.refresh.refresh),
    ];
    if options.refresh.refresh {
        features.push(Refresher::new(cluster, &options.refresh));
    }
    if options.eviction_requests.eviction_requests {
        features.push(EvictionRequests::new(cluster, &options.eviction_requests));
    }
    if options.report_unasked {
        features.push(Unasked::new(cluster));
    }
    features.extend(bridges(cluster, &options.bridges));
    features
}

/// Lets the features act whenever this process leads, until `shutdown`.
async fn lead(
    cluster: &Cluster,
    features: &[Arc<dyn Feature>],
    required: &[&'static str],
    shutdown: &CancellationToken,
) {
    let mut leads = cluster.leadership.subscribe();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            started = leads.wait_for(|leads| *leads) => if started.is_err() { return },
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = cluster.readiness.wait(required) => {}
        }
        let term = CancellationToken::new();
        cluster.begin_term(term.clone());
        info!("acting");
        let (stop, mut workers) = (CancellationToken::new(), JoinSet::new());
        for feature in features {
            spawn_workers(feature, cluster, &mut workers, &stop);
        }
        spawn_resync(cluster, &mut workers, &stop);
        let lost = tokio::select! {
            () = shutdown.cancelled() => false,
            _ = leads.wait_for(|leads| !*leads) => true,
            () = cluster.term_restarts() => {
                info!("starting from fresh lists");
                true
            }
            // A worker ends before its term only by a panic. Another process does better than one with fewer.
            _ = workers.join_next() => {
                error!("a worker ended: this process gives the lease back and ends");
                shutdown.cancel();
                true
            }
        };
        stop.cancel();
        if !lost {
            let finish = async {
                while workers.join_next().await.is_some() {}
                for feature in features {
                    feature.drain().await;
                }
            };
            if timeout(DRAIN, finish).await.is_err() {
                warn!("some attempts were not recorded in time; the next leader resolves them");
            }
        }
        term.cancel();
        workers.shutdown().await;
        cluster.stand_by();
        info!("no longer acting");
    }
}

/// Returns a name that no other process has, on this host or another.
fn identity(program: &str) -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    format!("{}_{}", host.as_deref().unwrap_or(program), Uuid::new_v4())
}
