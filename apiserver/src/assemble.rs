//! The server, put together from its parts.

use std::{sync::Arc, time::Duration};

use evacuation_api::{Evacuation, SelfEvacuation};
use machinery_auth::{Authenticator, Authorizer};
use machinery_server::{BuildError, Namespaces, Registry, Server, ServerOptions};
use machinery_storage::Store;

use crate::{EvacuationResponderStrategy, EvacuationStrategy, Pods, Respond, SelfEvacuationView};

/// The most bytes of the metadata, and of the rest but for the status, of an Evacuation or an EvacuationResponder: whatever the
/// validation of a spec allows fits, and little enough that a namespace's worth of them harms nobody else.
const SIZE_LIMIT: usize = 320 * 1024;

/// What the server depends on.
pub struct Parts {
    /// Where the objects are stored.
    pub store: Arc<dyn Store>,
    /// The target pods.
    pub pods: Arc<dyn Pods>,
    /// Who asks.
    pub authenticator: Arc<dyn Authenticator>,
    /// Whether one may: asked for each request, and for what a request leads to.
    pub authorizer: Arc<dyn Authorizer>,
    /// The namespaces of the cluster.
    pub namespaces: Arc<dyn Namespaces>,
    /// For how long requests are still taken after the server was told to end.
    pub shutdown_delay: Duration,
}

/// The server with every resource of the API, ready to serve. Tests drive these very routes.
///
/// # Errors
///
/// The documents cannot be made from the kinds' schemas.
pub fn assemble(parts: Parts) -> Result<Server, BuildError> {
    let Parts { store, pods, authenticator, authorizer, namespaces, shutdown_delay } = parts;
    let responders = EvacuationResponderStrategy::new(Arc::clone(&authorizer));
    let responders = Registry::with_size_limit(Arc::clone(&store), "", responders, SIZE_LIMIT);
    let strategy =
        EvacuationStrategy::new(Arc::clone(&pods), Arc::clone(&responders), Arc::clone(&authorizer));
    let evacuations = Registry::with_size_limit(store, "", strategy, SIZE_LIMIT);
    let respond = Respond::for_anyone(Arc::clone(&evacuations), Arc::clone(&pods), Arc::clone(&authorizer));
    let self_respond = Respond::for_target(Arc::clone(&evacuations), pods, Arc::clone(&authorizer));
    let options = ServerOptions {
        title: "Evacuation API".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        shutdown_delay,
        ..ServerOptions::default()
    };
    Server::builder(options)
        .resource(Arc::clone(&evacuations))
        .action(Evacuation::PLURAL, Arc::new(respond))
        .view(SelfEvacuationView, evacuations)
        .action(SelfEvacuation::PLURAL, Arc::new(self_respond))
        .resource(responders)
        .authenticator(authenticator)
        .authorizer(authorizer)
        .namespaces(namespaces)
        .build()
}
