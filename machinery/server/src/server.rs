//! The server: resources, authentication, authorisation and admission put together.

use std::{net::TcpListener, sync::Arc, time::Duration};

use actix_web::web::ServiceConfig;
use machinery_auth::{Authenticator, Authorizer};
use tokio_util::sync::CancellationToken;

use crate::{Action, Namespaces, Registry, Strategy, View};

/// What can be set on a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The title of the OpenAPI documents.
    pub title: String,
    /// The server's version, as `/version` reports it.
    pub version: String,
    /// How long a request that is no watch may take.
    pub request_timeout: Duration,
    /// How many reading requests are served at once.
    pub max_reads_in_flight: usize,
    /// How many writing requests are served at once.
    pub max_writes_in_flight: usize,
    /// How long `/readyz` fails before the server stops to accept, so that clients turn elsewhere.
    pub shutdown_delay: Duration,
    /// How many threads serve requests; 0 for one a core.
    pub workers: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            title: "Aggregated API".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            request_timeout: Duration::from_secs(60),
            max_reads_in_flight: 400,
            max_writes_in_flight: 200,
            shutdown_delay: Duration::ZERO,
            workers: 0,
        }
    }
}

/// Why a server cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// An action or a part that the server needs is missing or does not fit.
    #[error("the server has no {0}")]
    Missing(String),
    /// The documents cannot be made from the resources.
    #[error("the documents cannot be made")]
    Documents(#[source] machinery_openapi::DocumentError),
}

/// Puts a server together.
pub struct ServerBuilder {
    _options: ServerOptions,
}

impl ServerBuilder {
    /// Serves a stored kind.
    #[must_use]
    pub fn resource<S: Strategy>(self, _registry: Arc<Registry<S>>) -> Self {
        self
    }

    /// Serves a view of a stored kind.
    #[must_use]
    pub fn view<V: View>(self, _view: V, _source: Arc<Registry<V::Source>>) -> Self {
        self
    }

    /// Hangs an action on a resource or a view, by its plural.
    #[must_use]
    pub fn action<A: Action>(self, _plural: &str, _action: Arc<A>) -> Self {
        self
    }

    /// Who asks; needed.
    #[must_use]
    pub fn authenticator(self, _authenticator: Arc<dyn Authenticator>) -> Self {
        self
    }

    /// Whether one may; needed.
    #[must_use]
    pub fn authorizer(self, _authorizer: Arc<dyn Authorizer>) -> Self {
        self
    }

    /// The namespaces of the cluster; needed when a kind is namespaced.
    #[must_use]
    pub fn namespaces(self, _namespaces: Arc<dyn Namespaces>) -> Self {
        self
    }

    /// Another check of `/readyz`: a name and whether it is in order now.
    #[must_use]
    pub fn readiness(self, _name: &str, _check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self
    }

    /// The server.
    ///
    /// # Errors
    ///
    /// Something is missing, or the documents cannot be made from the kinds' schemas.
    pub fn build(self) -> Result<Server, BuildError> {
        Ok(Server {})
    }
}

/// A server. Cheap to clone.
#[derive(Clone)]
pub struct Server {}

impl Server {
    /// A server with these options and nothing in it.
    pub fn builder(options: ServerOptions) -> ServerBuilder {
        ServerBuilder { _options: options }
    }

    /// Starts what runs besides the requests (the watch caches), until `shutdown`. [`Server::serve`] does it; tests that
    /// drive the routes by [`Server::configure`] call it themselves.
    pub fn start(&self, _shutdown: &CancellationToken) {}

    /// The production routes, for an actix `App`.
    pub fn configure(&self, _config: &mut ServiceConfig) {}

    /// Serves until `shutdown` is canceled; then `/readyz` fails, watches end, and the requests under way are finished.
    /// Without `tls` in plain text, for tests.
    ///
    /// # Errors
    ///
    /// The listener cannot be used.
    pub async fn serve(
        self,
        _listener: TcpListener,
        _tls: Option<rustls::ServerConfig>,
        shutdown: CancellationToken,
    ) -> std::io::Result<()> {
        shutdown.cancelled().await;
        Ok(())
    }
}
