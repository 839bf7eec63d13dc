//! Start of the server.

use std::{
    error::Error,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use evacuation_api::GROUP;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use machinery_admission::AdmissionMetrics;
use machinery_auth::{
    Authorizer, DelegatedAuthentication, ServingCertificate, StartError, SubjectAccessReviewAuthorizer,
    server_config,
};
use machinery_server::{Admission, KubeNamespaces, Metrics};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::{KubePods, KubeSights, Options, Parts, RunError, assemble, store};

/// Timeout for opening a connection to the kube-apiserver.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the server tries the kube-apiserver again. Each try waits by itself, too.
const RETRY: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is canceled, then ends the watches and waits for the requests in progress.
///
/// Waits for the kube-apiserver and for etcd without limit, also at the start: they can start later than this
/// server. Only a failure that waiting does not fix is an error.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), RunError> {
    // Fails when another part of the process was first; then that one's provider is used.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let certificate = ServingCertificate::start(
        &options.tls_cert_file,
        &options.tls_private_key_file,
        shutdown.child_token(),
    );
    let tls = server_config(certificate.await.map_err(RunError::Certificate)?).map_err(RunError::Tls)?;
    let client = connect(&options).await?;
    let store = store::open(&options, &shutdown).await?;
    let address = SocketAddr::new(options.bind_address, options.secure_port);
    let listen = |source| RunError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(listen)?;

    let Some(authenticator) = authenticate(&client, &shutdown).await else {
        return Ok(());
    };
    // The core group has pods/eviction, which each request for a pod needs.
    let authorizer = SubjectAccessReviewAuthorizer::new(client.clone());
    let authorizer = authorizer.all_objects_first(GROUP).all_objects_first("");
    let authorizer: Arc<dyn Authorizer> = Arc::new(authorizer);
    let namespaces = KubeNamespaces::start(client.clone(), shutdown.child_token());
    let mut registry = Registry::default();
    let metrics = AdmissionMetrics::register(&mut registry);
    let admission = options.admission.start(
        &client,
        namespaces.clone(),
        authorizer.clone(),
        &options.limits.priority_users,
        metrics,
        &shutdown,
    );
    let server = assemble(Parts {
        store,
        pods: Arc::new(KubePods::new(client.clone())),
        sights: Arc::new(KubeSights::new(client)),
        authenticator,
        authorizer,
        namespaces,
        shutdown_delay: Duration::from_secs(options.shutdown_delay_seconds),
        limits: options.limits,
        admission: admission.map(|plugins| plugins as Arc<dyn Admission>),
        metrics: Metrics::in_registry(registry),
    })
    .map_err(RunError::Build)?;
    tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "serving");
    server.serve(listener, Some(tls), shutdown).await.map_err(listen)
}

async fn connect(options: &Options) -> Result<Client, RunError> {
    fn failed(error: impl Error + Send + Sync + 'static) -> RunError {
        RunError::Kubeconfig(Box::new(error))
    }
    let mut config = match &options.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(failed)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)?
        }
        None => Config::incluster().map_err(failed)?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(failed)
}

/// Waits for the kube-apiserver's front-proxy trust settings; `None` when the server shuts down before.
async fn authenticate(client: &Client, shutdown: &CancellationToken) -> Option<Arc<DelegatedAuthentication>> {
    loop {
        match DelegatedAuthentication::start(client.clone(), shutdown.child_token()).await {
            Ok(authentication) => return Some(authentication),
            Err(StartError::ShutDown) => return None,
            Err(error) => {
                tracing::warn!(error = &error as &dyn Error, "waiting for the kube-apiserver");
                shutdown.run_until_cancelled(tokio::time::sleep(RETRY)).await?;
            }
        }
    }
}
