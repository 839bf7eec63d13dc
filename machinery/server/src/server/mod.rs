//! Server: resources, authentication, authorisation and admission.

mod builder;
mod core;
mod described;
mod peer_clocks;
mod scale_paths;
mod write_probe;

use std::{any::Any, net::TcpListener, sync::Arc, time::Duration};

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    App, HttpServer,
    dev::Extensions,
    rt::net::TcpStream,
    web::{self, ServiceConfig},
};
use machinery_auth::{HANDSHAKE_TIMEOUT, MAX_HANDSHAKES, raise_open_files};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio_util::sync::CancellationToken;

pub use self::builder::{BuildError, ServerBuilder};
pub(crate) use self::{
    core::{Core, Served},
    write_probe::WriteProbe,
};
use crate::http::{self, PeerCertificates};

/// Maximum idle time of a connection. It exceeds that of the proxies of kube-apiserver (90 s), so that the
/// server does not close a connection while a request is on its way.
const KEEP_ALIVE: Duration = Duration::from_mins(3);
/// Maximum time until the head of the first request. It exceeds the 90 s for which Go's clients keep an
/// unused connection: a connection that is closed just when it is needed costs a request.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Title of the OpenAPI documents.
    pub title: String,
    /// Version of the server, as `/version` reports it.
    pub version: String,
    /// Maximum time of a request that is no watch.
    pub request_timeout: Duration,
    /// Maximum time for the body of a request to arrive. Such a request holds no slot yet.
    pub body_timeout: Duration,
    /// Users that the server must always have capacity for, such as the controller of its kinds. They have no
    /// share, and an eighth of every limit below is reserved for them.
    pub priority_users: Vec<String>,
    /// Maximum number of reads in progress. One caller (a user, or a pod of a service account) can have an
    /// eighth of them, the service accounts of one namespace a quarter, and all requests for views three
    /// quarters.
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
    /// Maximum time for which a client may read nothing of what was sent to it, before its connection is
    /// ended.
    pub send_timeout: Duration,
    /// Time for which `/readyz` fails before watches end and the server stops to accept connections, so that
    /// clients turn to another replica.
    pub shutdown_delay: Duration,
    /// Maximum time for requests in progress after that.
    pub shutdown_timeout: Duration,
    /// Number of threads that serve requests; 0 for one per core.
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

/// API server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
}

impl Server {
    /// Returns a builder of a server with these options.
    pub fn builder(options: ServerOptions) -> ServerBuilder {
        ServerBuilder::new(options)
    }

    fn new(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    /// Starts the background work (the watch caches), which runs until `shutdown`. [`Server::serve`] calls
    /// it. Tests that drive the routes by [`Server::configure`] call it themselves, once, within a tokio
    /// runtime.
    pub fn start(&self, shutdown: &CancellationToken) {
        for served in self.core.resources.values() {
            served.resource.start(&self.core.shutdown);
        }
        let core = self.core.clone();
        tokio::spawn(async move {
            if let Some(probe) = &core.write_probe {
                probe.run(&core.shutdown).await;
            }
        });
        let (core, shutdown) = (self.core.clone(), shutdown.clone());
        tokio::spawn(async move {
            shutdown.cancelled().await;
            core.stopping.cancel();
            tokio::time::sleep(core.options.shutdown_delay).await;
            core.shutdown.cancel();
        });
    }

    /// Adds the production routes to an actix `App`.
    pub fn configure(&self, config: &mut ServiceConfig) {
        config.app_data(web::Data::from(self.core.clone())).default_service(web::to(http::handle));
    }

    /// Serves until `shutdown` is canceled. Then `/readyz` fails, watches end, and the requests in progress
    /// are finished. Without `tls` it serves plain text, for tests. HTTP/1.1 only: there, the server notices
    /// at once that a client has left. Raises the process's limit of open files.
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
        raise_open_files();
        self.start(&shutdown);
        let options = self.core.options.clone();
        let ended = self.core.shutdown.clone();
        let app = move || {
            let server = self.clone();
            App::new().configure(move |config| server.configure(config))
        };
        // A block: the parts of the builder that are not `Send` are gone before the first await.
        let running = {
            let mut server = HttpServer::new(app)
                .on_connect(move |connection, data| on_connect(connection, data, options.send_timeout))
                .h1_allow_half_closed(false)
                .keep_alive(KEEP_ALIVE)
                .client_request_timeout(HEAD_TIMEOUT)
                .max_connection_rate(MAX_HANDSHAKES)
                .tls_handshake_timeout(HANDSHAKE_TIMEOUT)
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

/// Configures a connection. Small writes are sent at once: an event of a watch must not wait for the
/// acknowledgement of the one before. A client that reads nothing is cut off. The certificates of the client
/// are kept for the authenticators.
fn on_connect(connection: &dyn Any, data: &mut Extensions, send_timeout: Duration) {
    let tls = connection.downcast_ref::<TlsStream<TcpStream>>();
    let tcp = tls.map(|stream| stream.get_ref().0).or_else(|| connection.downcast_ref::<TcpStream>());
    if let Some(Err(error)) = tcp.map(|stream| stream.set_nodelay(true)) {
        tracing::debug!(%error, "connection sends small writes late");
    }
    let limit = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
    if let Some(Err(error)) = tcp.map(|stream| set_tcp_user_timeout(stream, limit)) {
        tracing::debug!(%error, "connection has no limit for clients that do not read");
    }
    let certificates = tls
        .and_then(|stream| stream.get_ref().1.peer_certificates())
        .map(|chain| chain.iter().map(|certificate| certificate.clone().into_owned()).collect());
    data.insert(PeerCertificates(certificates.unwrap_or_default()));
}
