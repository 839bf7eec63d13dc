//! Start of the server.

use std::{net::TcpListener, sync::Arc};

use anyhow::Context;
use machinery_auth::{
    Authenticator, Authorizer, DelegatedAuthentication, ServingCertificate, SubjectAccessReviewAuthorizer,
    server_config,
};
use machinery_server::{
    BuildError, KubeNamespaces, Metrics, Namespaces, Registry, RequestContext, Server, ServerOptions,
};
use machinery_storage::{EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, Store};
use tokio_util::sync::CancellationToken;

use crate::{DepotStrategy, FleetStrategy, Options};

/// Dependencies of the server.
pub struct Parts {
    /// Store of the objects.
    pub store: Arc<dyn Store>,
    /// Authentication of callers.
    pub authenticator: Arc<dyn Authenticator>,
    /// Authorisation of each request.
    pub authorizer: Arc<dyn Authorizer>,
    /// The namespaces of the cluster.
    pub namespaces: Arc<dyn Namespaces>,
    /// The rules of depots.
    pub depots: DepotStrategy,
}

/// Returns the server of the kinds.
///
/// # Errors
///
/// The OpenAPI documents cannot be made from the kind's schema.
pub fn server(parts: Parts) -> Result<Server, BuildError> {
    let metrics = Metrics::new();
    let store = metrics.measure(parts.store, "");
    let fleets = Registry::new(store.clone(), "", FleetStrategy);
    Server::builder(ServerOptions { title: "Fleets".to_owned(), ..ServerOptions::default() })
        .resource(fleets)
        .resource(Registry::new(store, "", parts.depots))
        .authenticator(parts.authenticator)
        .authorizer(parts.authorizer)
        .namespaces(parts.namespaces)
        .metrics(metrics)
        .build()
}

/// Serves behind a kube-apiserver until `shutdown` is canceled.
///
/// # Errors
///
/// A failure to start that waiting does not fix.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    // Fails when another part of the process was first; then that one's provider is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (certificate, key) = (&options.tls_cert_file, &options.tls_private_key_file);
    let tls = server_config(ServingCertificate::start(certificate, key, shutdown.child_token()).await?)?;
    let client = machinery_client::client(machinery_client::config(options.kubeconfig.as_deref()).await?)?;
    let store: Arc<dyn Store> = match &options.data_file {
        Some(file) => Arc::new(EmbeddedStore::open(EmbeddedOptions::new(file.clone())).await?),
        None => Arc::new(EtcdStore::connect(EtcdOptions::new(options.etcd_servers)).await?),
    };
    if options.rewrite {
        let depots = Registry::new(store, "", DepotStrategy::default());
        let rewritten = depots.rewrite_outdated(&RequestContext::default()).await?;
        tracing::info!(rewritten, "depots are in the stored version");
        return Ok(());
    }
    let Some(authenticator) = DelegatedAuthentication::start_when_reachable(&client, &shutdown).await else {
        return Ok(());
    };
    let server = server(Parts {
        store,
        authenticator,
        authorizer: Arc::new(SubjectAccessReviewAuthorizer::new(client.clone())),
        namespaces: KubeNamespaces::start(client, shutdown.child_token()),
        depots: DepotStrategy::default(),
    })?;
    let listener = TcpListener::bind(options.address)
        .with_context(|| format!("cannot listen on {}", options.address))?;
    tracing::info!(address = %options.address, "serving");
    Ok(server.serve(listener, Some(tls), shutdown).await?)
}
