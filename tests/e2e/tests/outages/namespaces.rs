//! Namespaces that are deleted while our API server is down, and what lets them go.

use anyhow::bail;
use controlplane::eventually;
use evacuation_e2e::{PodSpec, Scene, scene::PATIENCE};
use k8s_openapi::{api::core::v1::Namespace, kube_aggregator::pkg::apis::apiregistration::v1::APIService};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::worker;

/// Name of the APIService.
const NAME: &str = "v1alpha1.evacuation.dev";

/// Creates a namespace, deletes it, and waits until Kubernetes says that it waits for our API.
async fn stays(scene: &Scene, name: &str) -> String {
    let api: Api<Namespace> = Api::all(scene.admin());
    let name = format!("{}-{name}", scene.namespace());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &namespace).await.unwrap();
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let waits = eventually(PATIENCE, "the namespace waits for the API", || async {
        let status = api.get(&name).await?.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let failure = conditions.iter().find(|c| c.type_ == "NamespaceDeletionDiscoveryFailure");
        match failure.filter(|c| c.status == "True").and_then(|c| c.message.clone()) {
            Some(message) if message.contains("evacuation.dev/v1alpha1") => Ok(()),
            _ => bail!("{conditions:?}"),
        }
    });
    waits.await.unwrap();
    name
}

async fn goes(scene: &Scene, name: &str) {
    let api: Api<Namespace> = Api::all(scene.admin());
    let gone = eventually(PATIENCE, "the namespace is gone", || async {
        match api.get_opt(name).await? {
            None => Ok(()),
            Some(namespace) => bail!("{:?}", namespace.status),
        }
    });
    gone.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_waits_for_our_api_goes_when_it_is_back() {
    let scene = worker::scene("waiting").await;
    let server = scene.platform().apiserver();
    server.terminate().await.unwrap();
    let namespace = stays(&scene, "left").await;
    server.start().unwrap();
    goes(&scene, &namespace).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_waits_for_our_api_goes_without_it_and_what_is_stored_comes_back_with_it() {
    let scene = worker::scene("without").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let services: Api<APIService> = Api::all(scene.admin());
    let mut service = services.get(NAME).await.unwrap();
    let server = scene.platform().apiserver();
    server.terminate().await.unwrap();
    let namespace = stays(&scene, "left").await;
    services.delete(NAME, &DeleteParams::default()).await.unwrap();
    goes(&scene, &namespace).await;

    server.start().unwrap();
    service.metadata.resource_version = None;
    services.create(&PostParams::default(), &service).await.unwrap();
    let stored = eventually(PATIENCE, "the API is back", || async {
        scene.evacuations().get(&evacuation.name_any()).await
    });
    assert_eq!(stored.await.unwrap().uid(), evacuation.uid());
}
