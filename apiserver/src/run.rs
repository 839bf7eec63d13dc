//! Start of the server.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
    time::Duration,
};

use evacuation_api::GROUP;
use machinery_admission::AdmissionMetrics;
use machinery_auth::{
    Authorizer, DelegatedAuthentication, ServingCertificate, SubjectAccessReviewAuthorizer, server_config,
};
use machinery_server::{Admission, KubeNamespaces, Metrics};
use machinery_tracing::{Traces, TracingConfig};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::{CurrentSettings, KubePods, KubeSights, Leader, Options, Parts, RunError, assemble, store};

/// Name of the service in traces.
const SERVICE: &str = "evacuation-apiserver";

/// Serves until `shutdown` is canceled, then ends the watches and waits for the requests in progress.
///
/// Waits for the kube-apiserver and for etcd without limit, also at the start: they can start later than this
/// server. Only a failure that waiting does not fix is an error.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    // Fails when another part of the process was first; then that one's provider is used.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut registry = Registry::default();
    let settings = CurrentSettings::start(&options.settings, &mut registry, shutdown.child_token());
    let settings = settings.await.map_err(RunError::Settings)?;
    let audit = options.audit.clone().start()?;
    let traces = options.tracing_config_file.as_deref().map(trace).transpose()?;
    let certificate = ServingCertificate::start(
        &options.tls_cert_file,
        &options.tls_private_key_file,
        shutdown.child_token(),
    );
    let tls = server_config(certificate.await.map_err(RunError::Certificate)?).map_err(RunError::Tls)?;
    let config = machinery_client::config(options.kubeconfig.as_deref()).await;
    let client = config.and_then(machinery_client::lean_client).map_err(RunError::Kubeconfig)?;
    let store = store::open(&options, &shutdown).await?;
    let address = SocketAddr::new(options.bind_address, options.secure_port);
    let listen = |source| RunError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(listen)?;

    let Some(authenticator) = DelegatedAuthentication::start_when_reachable(&client, &shutdown).await else {
        return Ok(());
    };
    // The core group has pods/eviction, which each request for a pod needs.
    let authorizer = SubjectAccessReviewAuthorizer::new(client.clone());
    let authorizer = authorizer.all_objects_first(GROUP).all_objects_first("");
    let authorizer: Arc<dyn Authorizer> = Arc::new(authorizer);
    let namespaces = KubeNamespaces::start(client.clone(), shutdown.child_token());
    let metrics = AdmissionMetrics::register(&mut registry);
    let admission = options.admission.start(
        &client,
        namespaces.clone(),
        authorizer.clone(),
        &options.limits.priority_users,
        metrics,
        &shutdown,
    );
    let leader = (!options.controller_lease.is_empty()).then(|| {
        Leader::start(&client, &options.own_namespace, &options.controller_lease, shutdown.child_token())
    });
    let server = assemble(Parts {
        store,
        pods: Arc::new(KubePods::new(client.clone(), &options.limits.priority_users)),
        sights: Arc::new(KubeSights::new(client)),
        authenticator,
        authorizer,
        namespaces,
        shutdown_delay: Duration::from_secs(options.shutdown_delay_seconds),
        limits: options.limits,
        settings,
        audit: audit.clone(),
        traces: traces.clone(),
        admission: admission.map(|plugins| plugins as Arc<dyn Admission>),
        leader,
        metrics: Metrics::in_registry(registry),
    })
    .map_err(RunError::Build)?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "serving");
    let result = server.serve(listener, Some(tls), shutdown).await.map_err(listen);
    if let Some((_, log)) = audit
        && !log.close().await
    {
        tracing::error!("audit events are lost: the log did not take them in time");
    }
    if let Some(traces) = traces {
        traces.shutdown().await;
    }
    result
}

/// Starts to export traces, as the file says.
fn trace(config: &Path) -> Result<Traces, RunError> {
    let config = TracingConfig::load(config).map_err(RunError::TracingConfig)?;
    // The name of the pod, in Kubernetes.
    let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| std::process::id().to_string());
    Traces::start(&config, SERVICE, &instance).map_err(RunError::Traces)
}
