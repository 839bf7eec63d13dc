//! Depots in their two versions, and in the store.

// Helpers of tests fail as tests do; clippy spares only the test functions themselves.
#![allow(clippy::expect_used, clippy::panic)]

use std::{net::TcpListener, sync::Arc, time::Duration};

use machinery_auth::{AlwaysAllow, Anonymous};
use machinery_example::{DepotStrategy, Parts, server};
use machinery_server::{EveryNamespace, Registry, RequestContext};
use machinery_storage::{EmbeddedOptions, EmbeddedStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Serves on that store; depots are stored in that version. Returns the URL, and what ends the server.
async fn serve(store: &Arc<dyn Store>, stored_version: Option<&'static str>) -> (String, CancellationToken) {
    // The client wants one, also for plain text.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parts = Parts {
        store: store.clone(),
        authenticator: Arc::new(Anonymous::everyone()),
        authorizer: Arc::new(AlwaysAllow),
        namespaces: Arc::new(EveryNamespace),
        depots: DepotStrategy { stored_version },
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let shutdown = CancellationToken::new();
    tokio::spawn(server(parts).expect("a server").serve(listener, None, shutdown.clone()));
    for _ in 0..400 {
        if reqwest::get(format!("{url}/readyz")).await.is_ok_and(|reply| reply.status() == 200) {
            return (url, shutdown);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server is not ready in time");
}

async fn get(url: &str, version: &str) -> Value {
    let path = format!("{url}/apis/example.machinery.dev/{version}/namespaces/default/depots/north");
    let reply = reqwest::get(path).await.expect("a reply");
    assert_eq!(reply.status(), 200);
    reply.json().await.expect("JSON")
}

#[tokio::test]
async fn a_depot_outlives_the_version_in_which_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = EmbeddedStore::open(EmbeddedOptions::new(folder.path().join("store"))).await;
    let store: Arc<dyn Store> = Arc::new(store.expect("a store"));
    let (url, shutdown) = serve(&store, Some("v1beta1")).await;
    let depot = json!({"metadata": {"name": "north"}, "spec": {"town": "Ghent", "bays": 9, "chargers": 3}});
    let collection = format!("{url}/apis/example.machinery.dev/v1/namespaces/default/depots");
    let reply = reqwest::Client::new().post(collection).json(&depot).send().await.expect("a reply");
    assert_eq!(reply.status(), 201);
    let old = get(&url, "v1beta1").await;
    assert_eq!(old["spec"], json!({"city": "Ghent", "bays": 9}));
    assert_eq!(old["metadata"]["annotations"], json!({"example.machinery.dev/chargers": "3"}));
    shutdown.cancel();

    let depots = Registry::new(store.clone(), "", DepotStrategy::default());
    let context = RequestContext::default();
    assert_eq!(depots.rewrite_outdated(&context).await.expect("rewritten"), 1);
    assert_eq!(depots.rewrite_outdated(&context).await.expect("nothing to do"), 0);
    let (url, shutdown) = serve(&store, None).await;
    let new = get(&url, "v1").await;
    assert_eq!(new["spec"], json!({"town": "Ghent", "bays": 9, "chargers": 3}));
    assert_eq!(new["metadata"]["uid"], old["metadata"]["uid"]);
    shutdown.cancel();
}
