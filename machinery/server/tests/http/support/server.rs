//! The server of a test.

use std::{
    future::Future,
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use machinery_audit::{AuditLog, Policy};
use machinery_server::{Admission, Metrics, ObjectLimits, Registry, Server, ServerOptions};
use machinery_storage::{EmbeddedOptions, EmbeddedStore, Store};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    client::Client,
    faults::FaultyStore,
    guests::{TestAuthenticator, TestAuthorizer, TestNamespaces},
    kinds::{OwnPots, PotStrategy, Stir, StoveStrategy},
};

/// Settings of a test.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    pub(crate) options: ServerOptions,
    /// The store; an embedded one by default.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Absent for plain text; the probe that waits for the server trusts that CA, PEM.
    pub(crate) tls: Option<(rustls::ServerConfig, String)>,
    /// The port; a free one for 0.
    pub(crate) port: u16,
    /// Limits on the pots, if there are any.
    pub(crate) limits: Option<ObjectLimits>,
    /// True when the store can be read but not watched. The test then does not wait for readiness.
    pub(crate) unwatchable: bool,
    /// True when the store is down at first. The test then does not wait for readiness.
    pub(crate) down: bool,
    /// Plugins of admission, if there are any.
    pub(crate) admission: Option<Arc<dyn Admission>>,
    /// True when the server probes its store with writes.
    pub(crate) write_probe: bool,
    /// Audit policy and log, if there is one.
    pub(crate) audit: Option<(Policy, Arc<AuditLog>)>,
}

/// A running server.
pub(crate) struct Kitchen {
    pub(crate) namespaces: Arc<TestNamespaces>,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) pots: Arc<Registry<PotStrategy>>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) running: JoinHandle<std::io::Result<()>>,
    /// The same server again, on the same port and store.
    again: Setup,
    url: String,
    _folder: tempfile::TempDir,
}

impl Kitchen {
    pub(crate) async fn open() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let given = setup.store.is_some();
        let store = match setup.store {
            Some(store) => store,
            None => embedded(&folder).await,
        };
        let again = Setup { options: setup.options.clone(), store: Some(store.clone()), ..Setup::default() };
        let store = if given { FaultyStore::new(store) } else { FaultyStore::with_history(store) };
        store.set_down(setup.down);
        let metrics = Metrics::new();
        let measured = metrics.measure(store.clone(), "/registry");
        if setup.unwatchable {
            store.compact_before(i64::MAX);
        }
        let limits = setup.limits.unwrap_or(ObjectLimits::NONE);
        let pots = Registry::with_limits(measured.clone(), "/registry", PotStrategy, limits);
        let stir = Arc::new(Stir(pots.clone()));
        let namespaces = Arc::new(TestNamespaces::default());
        let mut builder = Server::builder(ServerOptions { workers: 2, ..setup.options });
        if setup.write_probe {
            builder = builder.write_probe(store.clone());
        }
        if let Some((policy, log)) = setup.audit {
            builder = builder.audit(policy, log);
        }
        if let Some(admission) = setup.admission {
            builder = builder.admission(admission);
        }
        let server = builder
            .resource(pots.clone())
            .resource(Registry::new(measured, "/registry", StoveStrategy))
            .view(OwnPots, pots.clone())
            .action("pots", stir.clone())
            .action("ownpots", stir)
            .authenticator(Arc::new(TestAuthenticator))
            .authorizer(Arc::new(TestAuthorizer))
            .namespaces(namespaces.clone())
            .metrics(metrics)
            .build()
            .expect("a server");
        let listener = TcpListener::bind(("127.0.0.1", setup.port)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let url = match &setup.tls {
            None => format!("http://127.0.0.1:{port}"),
            Some(_) => format!("https://localhost:{port}"),
        };
        let (tls, ca) = setup.tls.unzip();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(server.serve(listener, tls, shutdown.clone()));
        let kitchen = Self {
            namespaces,
            store,
            pots,
            shutdown,
            running,
            again: Setup { port, ..again },
            url,
            _folder: folder,
        };
        let probe = match &ca {
            None => kitchen.client(),
            Some(ca) => kitchen.client().certified(ca, None),
        };
        let probed = if setup.down || setup.unwatchable { "/livez" } else { "/readyz" };
        eventually("the server is ready", || async { probe.get(probed).await.code == 200 }).await;
        kitchen
    }

    /// Settings that open the same kitchen again after its end: on the same port and store.
    pub(crate) fn setup_again(&self) -> Setup {
        self.again.clone()
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Address of the server.
    pub(crate) fn address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.again.port)
    }

    /// Ends the server and waits for its end.
    pub(crate) async fn close(&mut self) {
        self.shutdown.cancel();
        (&mut self.running).await.expect("no panic").expect("a good end");
    }

    /// A Kubernetes client that is the user `cook`.
    pub(crate) fn kube_client(&self) -> kube::Client {
        // Any test may be first: it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = kube::Config::new(self.url.parse().expect("a URL"));
        let user = http::HeaderName::from_static("x-user");
        config.headers.push((user, http::HeaderValue::from_static("cook")));
        kube::Client::try_from(config).expect("a client")
    }

    /// A client that is the user `cook`.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url, "cook")
    }

    pub(crate) fn client_of(&self, user: &str) -> Client {
        Client::new(&self.url, user)
    }
}

impl Drop for Kitchen {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

pub(crate) async fn embedded(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    let options = EmbeddedOptions::new(folder.path().join("store"));
    Arc::new(EmbeddedStore::open(options).await.expect("a store"))
}

/// Waits until something is so.
pub(crate) async fn eventually<F, R>(what: &str, mut is_so: F)
where
    F: FnMut() -> R,
    R: Future<Output = bool>,
{
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
