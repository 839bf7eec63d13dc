//! Registrations of a tenant, and of a namespace whose registrations cannot be listed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use controlplane::eventually;
use evacuation_api::EvacuationResponder;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, PATIENCE, User, entry, in_millis, names, responders, wanting},
};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::tenant::{scene, tenant};

/// More registrations than an Evacuation has places.
const MANY: i32 = 40;
/// Objects with selectors, and the values of each.
const OBJECTS: usize = 5;
const VALUES: usize = 30_000;
/// Connections of the tenant.
const CONNECTIONS: usize = 16;
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

/// Questions that are only tried, one after the other on each connection, until this is dropped.
struct Trying {
    tries: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Trying {
    fn begin(scene: &Scene, tenant: &User, pod: &str) -> Self {
        let tries = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (api, tries) = (scene.evacuations_as(&tenant.client), Arc::clone(&tries));
            let wanted = wanting(pod, &[entry("tenant.acme.io/try", json!({}))]);
            tasks.spawn(async move {
                let dry = PostParams { dry_run: true, ..PostParams::default() };
                loop {
                    // Too many of one user are refused.
                    if api.create(&dry, &wanted).await.is_ok() {
                        tries.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        Self { tries, _tasks: tasks }
    }

    /// Waits until each connection has had an answer.
    async fn goes_on(&self) {
        let before = self.tries.load(Ordering::Relaxed);
        let goes_on = eventually(PATIENCE, "questions are tried", || async {
            let tries = self.tries.load(Ordering::Relaxed) - before;
            if tries >= CONNECTIONS { Ok(()) } else { Err(tries) }
        });
        goes_on.await.unwrap();
    }
}

/// Selectors are compared where they are.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: has 150,000 label values compared with those of a pod, by questions that are only tried
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn selectors_with_very_many_values_hold_up_no_other_drain() {
    let scene = scene("values").await;
    let (beside, tenant) = tokio::join!(Bystander::new(&scene), tenant(&scene));
    let api: Api<EvacuationResponder> = Api::namespaced(tenant.client.clone(), scene.namespace());
    // In no order, so that each has to be looked at.
    let values: Vec<_> = (0..VALUES).map(|number| format!("{:05}", number * 7919 % VALUES)).collect();
    let others = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values},
        {"key": "absent", "operator": "Exists"}]});
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("r-{number}")},
            "spec": {"name": format!("tenant.acme.io/r-{number}"), "selector": others}});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    scene.pod("app", PodSpec::default().label("app", "app")).await;
    let trying = Trying::begin(&scene, &tenant, "app");
    trying.goes_on().await;
    beside.drains(&scene).await;
    trying.goes_on().await;
    drop(trying);
    scene.left_alone("app");
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
