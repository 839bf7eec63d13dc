//! A namespace without room for another Evacuation, which a tenant filled through the gateway.

use std::collections::BTreeSet;

use controlplane::eventually;
use evacuation_api::NodeEvacuation;
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{ASKER, Bystander, PATIENCE, User, entry, leave, quick, refused, wanting},
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, ResourceQuota};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::tenant::tenant;

/// Objects that a namespace has room for. A quarter is the reserve.
const ROOM: usize = 16;
/// Pods of the tenant: more than there is room for.
const PODS: usize = ROOM + 2;

/// A platform with a gateway and small namespaces.
static PLATFORM: Pool = Pool::new(1, || {
    let configuration =
        "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n".to_owned();
    PlatformOptions {
        gateway: Some(configuration),
        apiserver_args: vec![format!("--max-objects-per-namespace={ROOM}")],
        ..PlatformOptions::default()
    }
});

/// Evicts a pod as that user, and returns the causes of the 429 and its message.
async fn held(scene: &Scene, user: &User, pod: &str) -> (BTreeSet<String>, String) {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(user.client.clone(), scene.namespace());
    let status = refused(pods.evict(pod, &EvictParams::default()).await);
    assert_eq!(status.code, 429, "{pod}: {status:?}");
    let details = status.details.unwrap();
    (details.causes.into_iter().map(|cause| cause.reason).collect(), status.message)
}

/// Returns the pods of the namespace whose eviction by that user was accepted.
fn evicted_by(scene: &Scene, user: &str) -> Vec<String> {
    let all = scene.all_evictions().into_iter();
    let taken = all.filter(|event| event.user() == user && event.code() == 201);
    taken.map(|event| event.name().to_owned()).collect()
}

/// The reserve goes by the owner of an entry, and a limit does not open the gate.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: evicts pod after pod, so that the gateway fills the namespace with its Evacuations
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_fills_its_namespace_through_the_gateway_holds_up_only_itself() {
    let scene = Scene::from_pool("room", &PLATFORM).await;
    let (beside, tenant, node) = tokio::join!(Bystander::new(&scene), tenant(&scene), scene.own_node());
    let names: Vec<String> = (0..PODS).map(|number| format!("app-{number}")).collect();
    join_all(names.iter().map(|name| scene.pod(name, PodSpec::watching()))).await;
    let plain = scene.pods.create("plain", &quick(PodSpec::default()).on(&node)).await.unwrap();
    let asked = scene.pod("asked", PodSpec::watching()).await;

    let mut full = 0;
    for name in &names {
        let (causes, message) = held(&scene, &tenant, name).await;
        if causes.contains("EvacuationLimit") {
            assert!(message.contains("exceeded the limit on objects of the namespace"), "{message}");
            full += 1;
        }
    }
    assert_eq!(full, PODS - (ROOM - ROOM / 4), "the reserve is not the tenant's");
    // An operator's rights come from a group, which the gateway declares.
    let status = refused(scene.pods.api().evict("asked", &EvictParams::default()).await);
    assert!(status.message.contains("has not answered"), "{status:?}");
    scene.evacuation_of(&asked.name_any()).await;
    beside.drainer().drains(&scene, &node).await;
    scene.pods.gone(&plain).await.unwrap();
    beside.drains(&scene).await;
    assert_eq!(evicted_by(&scene, &tenant.name), Vec::<String>::new(), "no call passed");
}

/// The callers of Kubernetes that act for all namespaces have a part in the reserve.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: fills its namespace with Evacuations that never end, so that neither a taint nor preemption can ask
///   its pods, and they stay
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_full_of_open_evacuations_keeps_no_taint_from_its_pods() {
    let scene = Scene::from_pool("full", &PLATFORM).await;
    let (beside, tenant, node) = tokio::join!(Bystander::new(&scene), tenant(&scene), scene.own_node());
    let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
    let accounts = ["taint-eviction-controller", "device-taint-eviction-controller", "node-controller"];
    for account in accounts.map(|name| format!("system:serviceaccount:kube-system:{name}")) {
        scene.decided(&account, &right, true).await;
    }
    scene.decided("system:kube-scheduler", &right, true).await;

    let names: Vec<String> = (0..=ROOM - ROOM / 4).map(|number| format!("app-{number}")).collect();
    join_all(names.iter().map(|name| scene.pod(name, PodSpec::watching()))).await;
    let own = scene.evacuations_as(&tenant.client);
    for (number, name) in names.iter().enumerate() {
        let wanted = wanting(name, &[entry("tenant.example.com/open", json!({}))]);
        let created = own.create(&PostParams::default(), &wanted).await;
        assert_eq!(created.is_ok(), number < names.len() - 1, "{created:?}");
    }
    scene.pods.create("tainted", &PodSpec::watching().on(&node)).await.unwrap();
    let taint = json!({"key": "test.evacuation.dev/out", "value": "x", "effect": "NoExecute"});
    let patch = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    Api::<Node>::all(scene.admin()).patch(&node, &PatchParams::default(), &patch).await.unwrap();
    let asked = scene.evacuation_of("tainted").await;
    assert_eq!(asked.spec.requesters[0].name, "gateway.evacuation.dev/taint-eviction");
    beside.drains(&scene).await;
}

/// Finished Evacuations give way to a question, and the tenant's own do so first.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: makes and cancels Evacuation after Evacuation, so that their records fill the namespace for an hour
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn records_of_canceled_evacuations_make_room_for_a_question_and_the_records_of_others_stay() {
    let scene = Scene::from_pool("records", &PLATFORM).await;
    let (beside, tenant) = tokio::join!(Bystander::new(&scene), tenant(&scene));
    let names: Vec<String> = (0..ROOM - ROOM / 4).map(|number| format!("app-{number}")).collect();
    join_all(names.iter().map(|name| scene.pod(name, PodSpec::watching()))).await;
    let (first, others) = names.split_first().unwrap();
    let wanted = wanting(first, &[entry(ASKER, json!({}))]);
    let kept = scene.evacuations().create(&PostParams::default(), &wanted).await.unwrap();
    scene.withdraw(&kept).await.unwrap();
    let own = scene.evacuations_as(&tenant.client);
    for name in others {
        let wanted = wanting(name, &[entry("tenant.example.com/more", json!({}))]);
        let evacuation = own.create(&PostParams::default(), &wanted).await.unwrap();
        leave(&own, &evacuation).await.unwrap();
    }

    scene.pod("asked", PodSpec::watching()).await;
    let asked = eventually(PATIENCE, "the app is asked", || async {
        let (causes, message) = held(&scene, &tenant, "asked").await;
        if message.contains("has not answered") { Ok(()) } else { Err(format!("{causes:?} {message}")) }
    });
    asked.await.unwrap();
    scene.evacuation_of("asked").await;
    scene.get(&kept).await;
    beside.drains(&scene).await;
    assert_eq!(evicted_by(&scene, &tenant.name), Vec::<String>::new(), "no call passed");
}

/// A quota holds calls and drains, and names itself.
///
/// # Attack
///
/// - Attacker: a tenant with the role `edit`
/// - Act: uses up the ResourceQuota of its namespace for Evacuations, and evicts
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_without_room_holds_evictions_and_a_drain_names_it_until_it_is_gone() {
    let scene = Scene::from_pool("quotaroom", &PLATFORM).await;
    let (beside, tenant, node) = tokio::join!(Bystander::new(&scene), tenant(&scene), scene.own_node());
    scene.pod("app", PodSpec::watching()).await;
    let plain = scene.pods.create("plain", &quick(PodSpec::default()).on(&node)).await.unwrap();
    let quota =
        json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/evacuations.evacuation.dev": "0"}}});
    scene.create::<ResourceQuota>(quota).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    // It refuses before kube-controller-manager has counted, too.
    let known = eventually(PATIENCE, "the server knows the quota", || async {
        match scene.evacuations().create(&dry, &wanting("app", &[entry(ASKER, json!({}))])).await {
            Err(kube::Error::Api(status)) if status.message.contains("quota: none") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    known.await.unwrap();

    let (causes, message) = held(&scene, &tenant, "app").await;
    assert!(causes.contains("EvacuationLimit") && message.contains("quota: none"), "{message}");
    let drain = beside.drainer().prepares(&node).await;
    beside.drainer().resumes(&drain).await;
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let named = eventually(PATIENCE, "the drain names the quota", || async {
        let status = drains.get(&drain.name_any()).await.map_err(|error| error.to_string())?.status;
        let status = serde_json::to_value(&status).map_err(|error| error.to_string())?;
        let blocker = &status["blockers"][0];
        let message = blocker["message"].as_str().unwrap_or_default();
        let named = blocker["reason"] == "RequestRejected" && message.contains("quota: none");
        if named { Ok(()) } else { Err(status.to_string()) }
    });
    named.await.unwrap();
    beside.drains(&scene).await;
    scene.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await.unwrap();
    scene.pods.gone(&plain).await.unwrap();
    assert_eq!(evicted_by(&scene, &tenant.name), Vec::<String>::new(), "no call passed");
}
