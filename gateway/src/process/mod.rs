//! The process: its parts, its start and its end.

mod client;
mod options;
mod path_token;
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

use actix_web::{App, HttpServer, dev::Server, http::KeepAlive, middleware::from_fn, web::ServiceConfig};
use chrono::TimeDelta;
use futures::future::join_all;
use machinery_auth::{
    HANDSHAKE_TIMEOUT, MAX_HANDSHAKES, ServingCertificate, ServingCertificateError, raise_open_files,
};
use machinery_client::ConnectError;
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

pub use self::options::Options;
use self::{path_token::PathToken, probe::Probes};
use crate::{
    asking::Asker,
    attestation::Attestations,
    cluster::{Cluster, Interests, Outages},
    config::{ConfigurationError, ConfigurationFile},
    events::{EventSink, LAST_EVENTS, publish_events, reporter},
    gateway::Gateway,
    interest::Withdrawal,
    judge::Trusted,
    ledger::Ledger,
    limiter::Limiter,
    metrics::Metrics,
    path_tokens::PathTokens,
    rights::Rights,
    surplus::SurplusReader,
    webhook::{decisions, observed, warnings_only, without_body},
};

/// Number of threads that serve the webhooks which decide.
const WORKERS: usize = 2;
/// Number of threads that serve the webhook which warns.
const WARNING_WORKERS: usize = 1;
/// Seconds in which calls in progress are answered when the process ends.
const SHUTDOWN_SECONDS: u64 = 5;
/// Maximum time from the accepted connection to the head of its first request. It is longer than the longest
/// `timeoutSeconds` of a webhook, and than the 90 s for which the kube-apiserver keeps a connection that it
/// has not used: a reply 408 would let the call pass.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);
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
/// Installs rustls' ring provider unless the process has one, and raises the limit of open files.
///
/// # Errors
///
/// The options lead to no client, no certificate, no configuration or no listener. Later failures are
/// retried.
pub async fn run(options: Options) -> Result<(), RunError> {
    // An error means that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    raise_open_files();
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
    let interests = Arc::<Interests>::default();
    let outages = Arc::<Outages>::default();
    let cluster = Cluster::start(&client, &interests, &outages, &tasks, &shutdown);
    let withdrawal = Withdrawal {
        client: client.clone(),
        cluster: Arc::clone(&cluster),
        configuration: Arc::clone(&configuration),
        interests,
        users: options.trusted_user.clone(),
        withdrawn: metrics.entries_withdrawn.clone(),
    };
    tasks.spawn(withdrawal.run(shutdown.clone()));
    let events = EventSink::new(metrics.events_dropped.clone());
    let last_events = CancellationToken::new();
    let publisher =
        tokio::spawn(publish_events(client.clone(), reporter(), events.published(), last_events.clone()));
    let probes = Probes::new(&client, &options.own_namespace, &options.controller_lease, outages);
    tasks.spawn(probes.run(shutdown.clone()));
    let tokens = Arc::<PathTokens>::default();
    let secret = (options.own_namespace.as_str(), options.path_secret.as_str());
    let configuration_name = options.webhook_configuration.as_str();
    let attestations =
        options.require_attestation.then(|| Arc::new(Attestations::new(client.clone(), configuration_name)));
    let path_token =
        PathToken::new(&client, secret, configuration_name, (Arc::clone(&tokens), attestations.clone()));
    tasks.spawn(path_token.run(shutdown.clone()));
    let gateway = Arc::new(Gateway {
        tokens,
        attestations,
        cluster,
        configuration,
        asker: Asker::new(client.clone()),
        ledger: Ledger::new(client.clone()),
        surplus: SurplusReader::new(client.clone()),
        rights: Rights::new(client),
        limiter: Limiter::default(),
        events,
        metrics,
        closing: AtomicBool::new(false),
        longest_hold: TimeDelta::seconds(options.hold_answers_seconds.into()),
        trusted: Trusted { users: options.trusted_user.clone(), namespace: options.own_namespace.clone() },
    });

    let observed_gateway = Arc::clone(&gateway);
    let metrics_app =
        move || App::new().wrap(from_fn(without_body)).configure(observed(Arc::clone(&observed_gateway)));
    // Each answer ends its connection: anybody may ask, and an idle connection would have no bound of time.
    let metrics_server = HttpServer::new(metrics_app)
        .workers(1)
        .keep_alive(KeepAlive::Disabled)
        .disable_signals()
        .shutdown_timeout(0)
        .bind(options.metrics_address)
        .map_err(|source| RunError::Listen { address: options.metrics_address, source })?
        .run();
    let metrics_handle = metrics_server.handle();
    tokio::spawn(metrics_server);
    let decide_server = serve(options.address, WORKERS, (tls.clone(), HANDSHAKE_TIMEOUT), {
        let gateway = Arc::clone(&gateway);
        move || decisions(Arc::clone(&gateway))
    })?;
    let warn_server = serve(options.warnings_address, WARNING_WORKERS, (tls, HANDSHAKE_TIMEOUT), {
        let gateway = Arc::clone(&gateway);
        move || warnings_only(Arc::clone(&gateway))
    })?;
    info!(address = %options.address, warnings = %options.warnings_address, "serving");
    let handles = [decide_server.handle(), warn_server.handle()];
    let stop = async {
        signal::terminated().await?;
        info!("shutting down");
        gateway.closing.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(options.shutdown_delay_seconds)).await;
        join_all(handles.iter().map(|handle| handle.stop(true))).await;
        Ok(())
    };
    // A server ends before the stop is done only by a failure.
    let result = tokio::try_join!(decide_server, warn_server, stop).map(drop).map_err(RunError::Serve);
    shutdown.cancel();
    metrics_handle.stop(false).await;
    tasks.close();
    tasks.wait().await;
    last_events.cancel();
    if timeout(LAST_EVENTS * 2, publisher).await.is_err() {
        warn!("the last events were not published in time");
    }
    result
}

/// Starts a server of webhooks over TLS, with so many threads and that maximum time of a handshake.
fn serve<C: FnOnce(&mut ServiceConfig)>(
    address: SocketAddr,
    workers: usize,
    (tls, handshake): (ServerConfig, Duration),
    configure: impl Fn() -> C + Clone + Send + 'static,
) -> Result<Server, RunError> {
    let server = HttpServer::new(move || App::new().configure(configure()))
        .workers(workers)
        .disable_signals()
        .client_request_timeout(HEAD_TIMEOUT)
        .max_connection_rate(MAX_HANDSHAKES)
        .tls_handshake_timeout(handshake)
        .keep_alive(KEEP_ALIVE)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .bind_rustls_0_23(address, tls)
        .map_err(|source| RunError::Listen { address, source })?;
    Ok(server.run())
}

#[cfg(test)]
mod tests;
