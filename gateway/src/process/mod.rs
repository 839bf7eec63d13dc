//! The process: its parts, its start and its end.

mod client;
mod options;
mod probe;
mod signal;
mod tls;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use actix_web::{App, HttpServer};
use machinery_auth::{ServingCertificate, ServingCertificateError};
use machinery_client::ConnectError;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

pub use self::options::Options;
use crate::{
    asking::Asker,
    cluster::Cluster,
    config::{ConfigurationError, ConfigurationFile},
    events::{EventSink, publish},
    gateway::Gateway,
    judge::Trusted,
    ledger::Ledger,
    limiter::Limiter,
    metrics::Metrics,
    rights::Rights,
    webhook::{observed, webhooks},
};

/// Number of threads that serve the webhooks.
const WORKERS: usize = 2;
/// Seconds in which calls in progress are answered when the process ends.
const SHUTDOWN_SECONDS: u64 = 5;
/// Maximum time for publishing the last Events.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// Maximum time in which a client sends the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which an idle connection of the kube-apiserver is kept.
const KEEP_ALIVE: Duration = Duration::from_mins(5);

/// Reason for which the gateway cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no client for the API.
    #[error(transparent)]
    Client(#[from] ConnectError),
    /// The configuration cannot be used.
    #[error("the configuration cannot be used")]
    Configuration(#[from] ConfigurationError),
    /// The serving certificate cannot be used.
    #[error("the serving certificate cannot be used")]
    Certificate(#[from] ServingCertificateError),
    /// The CA of clients cannot be used.
    #[error("{} holds no usable CA", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// Problem of the file.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The TLS settings cannot be made.
    #[error("the TLS settings cannot be made")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A listener cannot be opened.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A listener failed.
    #[error("the server of the webhooks failed")]
    Serve(#[source] std::io::Error),
}

/// Runs the gateway until SIGTERM or SIGINT. The caller must be in an actix runtime.
///
/// Installs rustls' ring provider unless the process has one.
///
/// # Errors
///
/// The options lead to no client, no certificate, no configuration or no listener. Later failures are
/// retried.
pub async fn run(options: Options) -> Result<(), RunError> {
    // An error means that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shutdown = CancellationToken::new();
    let metrics = Arc::new(Metrics::default());
    let configuration =
        ConfigurationFile::start(options.config.clone(), metrics.configuration.clone(), shutdown.clone())
            .await?;
    let certificate =
        ServingCertificate::start(&options.tls_cert_file, &options.tls_private_key_file, shutdown.clone())
            .await?;
    let tls = tls::tls(certificate, options.client_ca_file.as_deref())?;
    let client = client::client(options.kubeconfig.as_deref()).await?;

    let tasks = TaskTracker::new();
    let cluster = Cluster::start(&client, &tasks, &shutdown);
    let (events, queue) = EventSink::new(metrics.events_dropped.clone());
    let publisher = tokio::spawn(publish(client.clone(), queue));
    tasks.spawn(probe::probe(client.clone(), Arc::clone(&cluster), shutdown.clone()));
    let gateway = Arc::new(Gateway {
        cluster,
        configuration,
        asker: Asker::new(client.clone()),
        ledger: Ledger::new(client.clone()),
        rights: Rights::new(client),
        limiter: Limiter::default(),
        events,
        metrics,
        closing: AtomicBool::new(false),
        trusted: Trusted { users: options.trusted_user.clone(), namespace: options.own_namespace.clone() },
    });

    let observed_gateway = Arc::clone(&gateway);
    let metrics_server =
        HttpServer::new(move || App::new().configure(observed(Arc::clone(&observed_gateway))))
            .workers(1)
            .disable_signals()
            .shutdown_timeout(0)
            .bind(options.metrics_address)
            .map_err(|source| RunError::Listen { address: options.metrics_address, source })?
            .run();
    let metrics_handle = metrics_server.handle();
    tokio::spawn(metrics_server);
    let webhook_gateway = Arc::clone(&gateway);
    let server = HttpServer::new(move || App::new().configure(webhooks(Arc::clone(&webhook_gateway))))
        .workers(WORKERS)
        .disable_signals()
        .client_request_timeout(HEAD_TIMEOUT)
        .keep_alive(KEEP_ALIVE)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .bind_rustls_0_23(options.address, tls)
        .map_err(|source| RunError::Listen { address: options.address, source })?
        .run();
    info!(address = %options.address, "serving");
    let handle = server.handle();
    let stop = async {
        signal::terminated().await?;
        info!("shutting down");
        gateway.closing.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(options.shutdown_delay_seconds)).await;
        handle.stop(true).await;
        Ok(())
    };
    // The server ends before the stop is done only by a failure.
    let result = tokio::try_join!(server, stop).map(drop).map_err(RunError::Serve);
    shutdown.cancel();
    metrics_handle.stop(false).await;
    tasks.close();
    tasks.wait().await;
    // With the last sink the publisher ends.
    drop(gateway);
    if timeout(LAST_EVENTS, publisher).await.is_err() {
        warn!("the last events were not published in time");
    }
    result
}
