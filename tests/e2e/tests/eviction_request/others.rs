//! Kubernetes' own controllers act: this one steps back.

use controlplane::eventually;
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::{
    api::{coordination::v1::Lease, lifecycle::v1alpha1::Eviction},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::stage::{AWAITING, DELETED, EVICTOR, FIRST, SECOND, Stage, states};

const LEASE: &str = "evictionrequest-controller";

/// Holds the lease for that many seconds.
async fn hold(client: &Client, seconds: i32) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "kube-controller-manager-0", "leaseDurationSeconds": seconds,
                 "renewTime": MicroTime(Timestamp::now())},
    });
    leases
        .patch(LEASE, &PatchParams::apply("kube-controller-manager").force(), &Patch::Apply(lease))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_their_lease_is_held_nothing_is_done_twice_and_afterwards_the_eviction_goes_on() {
    let stage = Stage::alone("others-lease").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    hold(&stage.admin(), 3600).await;
    let withdrawn = eventually(PATIENCE, "the entries are withdrawn", || async {
        let all = stage.evacuations().list(&ListParams::default()).await.unwrap().items;
        let open = all.iter().filter(|e| evacuation_e2e::scene::end_of(e).is_none()).count();
        if open == 0 { Ok(()) } else { Err(format!("{all:#?}")) }
    });
    withdrawn.await.unwrap();
    // What they find is what they would have written themselves.
    let eviction = stage.evictions_of(&pod).await.pop().unwrap();
    assert_eq!(states(&eviction)[0], (FIRST, "Active"));
    let before = eviction.metadata.resource_version.clone();
    let other = stage.pod_with("web-0", json!([])).await;
    stage.request("other", "acme.io/other", &other).await;
    assert!(stage.stays(&other).await);
    assert!(
        stage.requests().get("other").await.unwrap().status.is_none_or(|s| s.observed_generation.is_none())
    );
    assert_eq!(stage.evictions_of(&pod).await.pop().unwrap().metadata.resource_version, before);

    let leases: Api<Lease> = Api::namespaced(stage.admin(), "kube-system");
    leases.delete(LEASE, &DeleteParams::default()).await.unwrap();
    stage.reports("other", DELETED).await;
    for responder in [FIRST, SECOND] {
        stage.complete(&pod, responder).await;
        stage.eviction(&pod, "it is completed", |e| states(e).contains(&(responder, "Completed"))).await;
    }
    stage.reports("move", DELETED).await;
    assert_eq!((stage.calls("web-0"), stage.calls("db-0")), (1, 1));
    assert_eq!(stage.evictions_of(&pod).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_of_another_controller_is_left_to_it() {
    let stage = Stage::new("others-eviction").await;
    let pod = stage.pod_with("db-0", json!([])).await;
    let uid = pod.metadata.uid.clone().unwrap();
    let _: Eviction = stage
        .create(json!({
            "metadata": {"name": "pod-1-db-0"}, "spec": {"target": {"pod": {"name": "db-0", "uid": uid}}},
        }))
        .await;
    stage.request("move", "acme.io/balance", &pod).await;
    let other = stage.responding_pod("web-0").await;
    stage.request("other", "acme.io/other", &other).await;
    stage.reports("other", AWAITING).await;
    assert!(stage.stays(&pod).await);
    assert_eq!(stage.calls("db-0"), 0);
    let request = stage.requests().get("move").await.unwrap();
    assert!(request.status.is_none_or(|status| status.conditions.is_none()), "they report");
}
