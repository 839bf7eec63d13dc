//! The server: resources, authentication, authorisation and admission put together, and served.

mod builder;
mod core;
mod described;

use std::{any::Any, net::TcpListener, sync::Arc, time::Duration};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    App, HttpServer,
    dev::Extensions,
    rt::net::TcpStream,
    web::{self, ServiceConfig},
};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio_util::sync::CancellationToken;

pub use self::builder::{BuildError, ServerBuilder};
pub(crate) use self::core::{Core, Served};
use crate::http::{self, PeerCertificates};

/// Connections without a request are kept for so long: longer than the proxies of kube-apiserver keep them (90 s), so that it
/// is not the server that closes one while a request is on its way.
const KEEP_ALIVE: Duration = Duration::from_mins(3);
/// So long a client may take to send the head of its first request. Longer than the 90 s for which Go's clients keep a connection
/// that they opened and then did not need: one that is closed just when it is needed costs a request.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);

/// What can be set on a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The title of the OpenAPI documents.
    pub title: String,
    /// The server's version, as `/version` reports it.
    pub version: String,
    /// How long a request that is no watch may take.
    pub request_timeout: Duration,
    /// How long the body of a request may take to arrive. Such a request has no place among those in flight yet.
    pub body_timeout: Duration,
    /// Users that the server must always have capacity for, such as the controller of its kinds. They have no share, and an
    /// eighth of every limit below is reserved for them.
    pub priority_users: Vec<String>,
    /// Maximum number of reads in progress. One caller (a user, or a pod of a service account) can have an eighth of them, the
    /// service accounts of one namespace a quarter, and all requests for views three quarters.
    pub max_reads_in_flight: usize,
    /// Maximum number of writes in progress, with the same shares.
    pub max_writes_in_flight: usize,
    /// Maximum number of watches. The service accounts of one namespace can have half of them.
    pub max_watches: usize,
    /// Maximum number of watches of one caller.
    pub max_watches_of_one: usize,
    /// Maximum number of watches of views of one caller.
    pub max_view_watches_of_one: usize,
    /// Maximum size of the request bodies in memory, in bytes, with the shares of reads.
    pub max_body_bytes: usize,
    /// Maximum number of bearer tokens in authentication, with the shares of reads for each network address.
    pub max_token_reviews: usize,
    /// Maximum time for which a client may read nothing of what was sent to it, before its connection is ended.
    pub send_timeout: Duration,
    /// How long `/readyz` fails before watches end and the server stops to accept, so that clients turn elsewhere.
    pub shutdown_delay: Duration,
    /// How long requests under way may take after that.
    pub shutdown_timeout: Duration,
    /// How many threads serve requests; 0 for one a core.
    pub workers: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            title: "Aggregated API".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            request_timeout: Duration::from_mins(1),
            body_timeout: Duration::from_secs(10),
            priority_users: Vec::new(),
            max_reads_in_flight: 400,
            max_writes_in_flight: 200,
            max_watches: 20_000,
            max_watches_of_one: 1000,
            max_view_watches_of_one: 16,
            max_body_bytes: 64 * 1024 * 1024,
            max_token_reviews: 128,
            send_timeout: Duration::from_secs(30),
            shutdown_delay: Duration::ZERO,
            shutdown_timeout: Duration::from_secs(20),
            workers: 0,
        }
    }
}

/// A server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
}

impl Server {
    /// A server with these options and nothing in it.
    pub fn builder(options: ServerOptions) -> ServerBuilder {
        ServerBuilder::new(options)
    }

    fn new(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// Starts what runs besides the requests (the watch caches), until `shutdown`. [`Server::serve`] does it; tests that
    /// drive the routes by [`Server::configure`] call it themselves, once, within a tokio runtime.
    pub fn start(&self, shutdown: &CancellationToken) {
        for served in self.core.resources.values() {
            served.resource.start(&self.core.shutdown);
        }
        let (core, shutdown) = (self.core.clone(), shutdown.clone());
        tokio::spawn(async move {
            shutdown.cancelled().await;
            core.stopping.cancel();
            tokio::time::sleep(core.options.shutdown_delay).await;
            core.shutdown.cancel();
        });
    }

    /// The production routes, for an actix `App`.
    pub fn configure(&self, config: &mut ServiceConfig) {
        config.app_data(web::Data::from(self.core.clone())).default_service(web::to(http::handle));
    }

    /// Serves until `shutdown` is canceled; then `/readyz` fails, watches end, and the requests under way are finished.
    /// Without `tls` in plain text, for tests. HTTP/1.1 only: there, a client that leaves is noticed at once.
    ///
    /// # Errors
    ///
    /// The listener cannot be used.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<rustls::ServerConfig>,
        shutdown: CancellationToken,
    ) -> std::io::Result<()> {
        self.start(&shutdown);
        let options = self.core.options.clone();
        let ended = self.core.shutdown.clone();
        let app = move || {
            let server = self.clone();
            App::new().configure(move |config| server.configure(config))
        };
        // A block, so that what is not `Send` of the builder is gone before the first await.
        let running = {
            let mut server = HttpServer::new(app)
                .on_connect(move |connection, data| on_connect(connection, data, options.send_timeout))
                .h1_allow_half_closed(false)
                .keep_alive(KEEP_ALIVE)
                .client_request_timeout(HEAD_TIMEOUT)
                .shutdown_timeout(options.shutdown_timeout.as_secs())
                .disable_signals();
            if options.workers > 0 {
                server = server.workers(options.workers);
            }
            let server = match tls {
                Some(config) => server.listen_rustls_0_23(listener, config)?,
                None => server.listen(listener)?,
            };
            server.run()
        };
        let handle = running.handle();
        let stop = async move {
            ended.cancelled().await;
            handle.stop(true).await;
        };
        tokio::pin!(running);
        tokio::select! {
            result = &mut running => result,
            () = stop => running.await,
        }
    }
}

/// Sends small writes at once (an event of a watch must not wait for the acknowledgement of the one before), and keeps the
/// certificates that the client presented, for the authenticators.
fn on_connect(connection: &dyn Any, data: &mut Extensions, send_timeout: Duration) {
    let tls = connection.downcast_ref::<TlsStream<TcpStream>>();
    let tcp = tls.map(|stream| stream.get_ref().0).or_else(|| connection.downcast_ref::<TcpStream>());
    if let Some(Err(error)) = tcp.map(|stream| stream.set_nodelay(true)) {
        tracing::debug!(%error, "a connection sends its small writes late");
    }
    let limit = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
    if let Some(Err(error)) = tcp.map(|stream| set_tcp_user_timeout(stream, limit)) {
        tracing::debug!(%error, "a connection is not ended when its client stops reading");
    }
    let certificates = tls
        .and_then(|stream| stream.get_ref().1.peer_certificates())
        .map(|chain| chain.iter().map(|certificate| certificate.clone().into_owned()).collect());
    data.insert(PeerCertificates(certificates.unwrap_or_default()));
}
