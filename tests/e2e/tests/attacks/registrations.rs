//! Registrations of a tenant, and of a namespace whose registrations cannot be listed.

use evacuation_api::EvacuationResponder;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, in_millis, names, responders},
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::tenant::{scene, tenant};

/// More registrations than an Evacuation has places.
const MANY: i32 = 40;
/// The role of the controller.
const ROLE: &str = "evacuation-controller";

/// The pod's own responders keep their places.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: registers forty responders of high priority for a pod
/// - Promise: 8, 9
#[tokio::test(flavor = "multi_thread")]
async fn registrations_with_high_priority_do_not_displace_the_pods_own_app() {
    let scene = scene("displace").await;
    let (beside, tenant) = tokio::join!(Bystander::new(&scene), tenant(&scene));
    let api: Api<EvacuationResponder> = Api::namespaced(tenant.client.clone(), scene.namespace());
    for number in 0..MANY {
        let object = json!({
            "metadata": {"name": format!("r-{number}")},
            "spec": {"name": format!("tenant.acme.io/r-{number}"), "selector": {}, "timeoutSeconds": 1,
                     "priority": 90_000 + number},
        });
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let patient = json!([{"name": "self", "timeoutSeconds": 3600}]);
    let pod = scene.pod("db-0", PodSpec::registered(&patient)).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let started = scene.until(&evacuation, "the responders are fixed", |e| !responders(e).is_empty()).await;
    let fixed = responders(&started);
    assert!(names(&fixed).contains(&"self"), "{:?}", names(&fixed));
    beside.drains(&scene).await;
    scene.left_alone("db-0");
}

/// Takes the right to list registrations from the controller.
async fn nobody_lists_registrations(scene: &Scene) -> ClusterRole {
    let roles: Api<ClusterRole> = Api::all(scene.admin());
    let before = roles.get(ROLE).await.unwrap();
    let mut left = before.rules.clone().unwrap_or_default();
    left.retain(|rule| !rule.resources.iter().flatten().any(|resource| resource == "evacuationresponders"));
    let patch = Patch::Merge(json!({"rules": left}));
    roles.patch(ROLE, &PatchParams::default(), &patch).await.unwrap();
    before
}

/// A deadline acts whatever else fails.
///
/// # Attack
///
/// - Attacker: an outage or a lost right
/// - Act: keeps the controller from listing the registrations
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_acts_although_registrations_cannot_be_listed() {
    let scene = scene("unlisted").await;
    let beside = Bystander::new(&scene).await;
    let before = nobody_lists_registrations(&scene).await;
    let pod = scene.pod("db-0", PodSpec::watching()).await;
    let deadline = json!({"deadline": in_millis(2_000), "atDeadline": "Evict"});
    let evacuation = scene.ask(&pod, deadline).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    scene.pods.gone(&pod).await.unwrap();
    let deadline = evacuation.spec.requesters[0].deadline.unwrap().time();
    assert!(deadline <= scene.evicted_once("db-0"), "the deadline was {deadline}");
    beside.drains(&scene).await;

    let roles: Api<ClusterRole> = Api::all(scene.admin());
    let patch = Patch::Merge(json!({"rules": before.rules}));
    roles.patch(ROLE, &PatchParams::default(), &patch).await.unwrap();
}
