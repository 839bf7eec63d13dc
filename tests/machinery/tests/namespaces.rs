//! The namespaces of a real cluster, as the server watches them.
#![allow(clippy::expect_used, reason = "a test fails by panic")]

use std::{sync::Arc, time::Duration};

use controlplane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use machinery_server::{KubeNamespaces, NamespaceState, Namespaces};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_known_as_soon_as_they_are_there_and_while_they_go() {
    let cluster = ControlPlane::builder().nodes(0).start().await.expect("a control plane");
    let client = cluster.client().expect("a client");
    let shutdown = CancellationToken::new();
    let known: Arc<KubeNamespaces> = KubeNamespaces::start(client.clone(), shutdown.clone());
    let state = async |name: &str| known.state(name).await.expect("a state");
    assert_eq!(state("none").await, NamespaceState::Absent);

    let namespaces: Api<Namespace> = Api::all(client);
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("kitchen".to_owned());
    namespace.metadata.finalizers = Some(vec!["kitchen.dev/wait".to_owned()]);
    namespaces.create(&PostParams::default(), &namespace).await.expect("created");
    assert_eq!(state("kitchen").await, NamespaceState::Active, "at once");

    namespaces.delete("kitchen", &DeleteParams::default()).await.expect("deleted");
    let becomes = async |expected: NamespaceState| {
        let check = || async {
            let found = state("kitchen").await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        };
        eventually(Duration::from_secs(20), "the namespace changes", check).await.expect("in time");
    };
    becomes(NamespaceState::Terminating).await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    namespaces.patch("kitchen", &PatchParams::default(), &free).await.expect("freed");
    becomes(NamespaceState::Absent).await;

    cluster.apiserver().stop().expect("stopped");
    let unknown = known.state("elsewhere").await.expect_err("nobody knows");
    assert_eq!(unknown.reason(), machinery_server::Reason::ServiceUnavailable);
    assert_eq!(state("default").await, NamespaceState::Active, "known before");
    shutdown.cancel();
    cluster.stop().await.expect("stopped");
}
