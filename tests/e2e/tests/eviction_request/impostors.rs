//! Tenants who write what is not theirs to objects of that API.

use evacuation_e2e::scene::{Bystander, User, first, refused};
use k8s_openapi::api::lifecycle::v1alpha1::{Eviction, EvictionRequest, ResponderStatus};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::stage::{AWAITING, DELETED, EVICTOR, FIRST, SECOND, Stage, now, said};

/// Returns a user who may write every object of that API in the scene's namespace, and respond under a name.
async fn responder(stage: &Stage, user: &str, name: &str) -> User {
    let user = stage.user(user, &[]).await;
    let all = ["evictions", "evictions/status", "evictionrequests", "evictionrequests/status"];
    for resource in all {
        let verbs = ["update", "patch", "create", "get", "list"];
        let rule = json!({"apiGroups": ["lifecycle.k8s.io"], "resources": [resource], "verbs": verbs});
        stage.grant(&user.name, rule).await;
    }
    let rule = json!({"apiGroups": ["evacuation.dev"], "resources": ["responders"], "verbs": ["respond"],
        "resourceNames": [name]});
    stage.grant(&user.name, rule).await;
    user
}

/// Writes to the item of a responder in an Eviction, as that user.
async fn say(
    stage: &Stage,
    user: &User,
    eviction: &Eviction,
    name: &str,
    change: impl Fn(&mut ResponderStatus),
) -> kube::Result<Eviction> {
    let api: Api<Eviction> = Api::namespaced(user.client.clone(), stage.namespace());
    loop {
        let mut eviction = api.get(&eviction.name_any()).await?;
        let all = eviction.status.as_mut().unwrap().responders.as_mut().unwrap();
        change(all.iter_mut().find(|known| known.name == name).unwrap());
        match api.replace_status(&eviction.name_any(), &PostParams::default(), &eviction).await {
            // The controller was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            written => return written,
        }
    }
}

fn complete(said: &mut ResponderStatus) {
    said.completion_time = Some(now());
    said.message = Some("moved".to_owned());
}

#[track_caller]
fn forbidden<T: std::fmt::Debug>(result: kube::Result<T>, said: &str) {
    let status = refused(result);
    assert_eq!(status.code, 403, "{status:?}");
    assert!(status.message.contains(said), "{status:?}");
}

/// # Attack
///
/// - Attacker: a responder of Kubernetes' own API, with the right to write every object of that API in its
///   namespace
/// - Act: reports in the status of an Eviction that another responder is done, and that the requester
///   withdrew
/// - Promise: 4
#[tokio::test(flavor = "multi_thread")]
async fn a_responder_writes_its_own_part_of_an_eviction_and_answers_for_no_other() {
    let stage = Stage::new("impostor").await;
    let beside = Bystander::new(&stage).await;
    let (pod, own, other) = tokio::join!(
        stage.responding_pod("db-0"),
        responder(&stage, "own", "first.example.com/*"),
        responder(&stage, "other", SECOND),
    );
    stage.request("move", "acme.io/balance", &pod).await;
    let turn = [(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")];
    let eviction = stage.turns(&pod, &turn).await;

    forbidden(
        say(&stage, &other, &eviction, FIRST, complete).await,
        "cannot respond as first.example.com/move",
    );
    let api: Api<Eviction> = Api::namespaced(other.client.clone(), stage.namespace());
    let withdraw = json!({"status": {"requesters": [{"name": "acme.io/balance", "intent": "Withdrawn"}]}});
    let withdrawn =
        api.patch_status(&eviction.name_any(), &PatchParams::default(), &Patch::Merge(withdraw)).await;
    forbidden(withdrawn, "changes its own item of status.responders");
    stage.turns(&pod, &turn).await;
    assert_eq!(stage.calls("db-0"), 0);

    // The right for a name, or for its domain, is enough.
    say(&stage, &own, &eviction, FIRST, |said| said.heartbeat_time = Some(now())).await.unwrap();
    say(&stage, &own, &eviction, FIRST, complete).await.unwrap();
    stage.turns(&pod, &[(FIRST, "Completed"), (SECOND, "Active"), (EVICTOR, "Inactive")]).await;
    beside.drains(&stage).await;
    say(&stage, &other, &eviction, SECOND, complete).await.unwrap();
    stage.reports("move", DELETED).await;
    assert_eq!(stage.calls("db-0"), 1);
}

/// # Attack
///
/// - Attacker: a responder of Kubernetes' own API, with the right to write every object of that API in its
///   namespace
/// - Act: makes an Eviction of its own look like one of the controller, writes by the field manager of
///   Kubernetes' own controller so that this one steps back, and ends the request of another
/// - Promise: 4, 12
#[tokio::test(flavor = "multi_thread")]
async fn no_tenant_makes_the_controller_step_back_or_take_an_eviction_as_its_own() {
    let stage = Stage::new("foreign").await;
    let beside = Bystander::new(&stage).await;
    let (pod, tenant) = tokio::join!(stage.responding_pod("db-0"), responder(&stage, "tenant", FIRST));
    stage.request("move", "acme.io/balance", &pod).await;
    let turn = [(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")];
    let eviction = stage.turns(&pod, &turn).await;
    let evacuation = stage.evacuation_of("db-0").await;

    let evictions: Api<Eviction> = Api::namespaced(tenant.client.clone(), stage.namespace());
    let owner = json!({"apiVersion": "evacuation.dev/v1alpha1", "kind": "Evacuation",
        "name": evacuation.name_any(), "uid": evacuation.uid().unwrap()});
    let forged = object(json!({
        "metadata": {"name": "forged", "ownerReferences": [owner]},
        "spec": {"target": {"pod": {"name": "db-0", "uid": pod.uid().unwrap()}}},
    }));
    let only_controllers = "only controllers write Evictions";
    forbidden(evictions.create(&PostParams::default(), &forged).await, only_controllers);
    let disowned = Patch::Merge(json!({"metadata": {"ownerReferences": []}}));
    let name = eviction.name_any();
    forbidden(evictions.patch(&name, &PatchParams::default(), &disowned).await, only_controllers);

    let manager =
        PostParams { field_manager: Some("evictionrequest-controller".to_owned()), ..PostParams::default() };
    let mut beaten = evictions.get(&name).await.unwrap();
    let all = beaten.status.as_mut().unwrap().responders.as_mut().unwrap();
    all.iter_mut().find(|known| known.name == FIRST).unwrap().heartbeat_time = Some(now());
    forbidden(
        evictions.replace_status(&name, &manager, &beaten).await,
        "the field manager evictionrequest-controller",
    );
    let requests: Api<EvictionRequest> = Api::namespaced(tenant.client.clone(), stage.namespace());
    let ended = json!({"status": {"observedGeneration": 1, "conditions": [
        {"type": "Failed", "status": "True", "reason": "NoFurtherResponder", "message": "",
         "observedGeneration": 1, "lastTransitionTime": now()},
        {"type": "TargetEvicted", "status": "False", "reason": "EvictionFailed", "message": "",
         "observedGeneration": 1, "lastTransitionTime": now()},
    ]}});
    let written = requests.patch_status("move", &PatchParams::default(), &Patch::Merge(ended)).await;
    forbidden(written, only_controllers);

    say(&stage, &tenant, &eviction, FIRST, |said| said.message = Some("half of it".to_owned()))
        .await
        .unwrap();
    let told = stage.until(&evacuation, "the controller listens", |evacuation| {
        first(evacuation).message.as_deref() == Some("half of it")
    });
    assert!(!told.await.spec.requesters.is_empty(), "it did not step back");
    stage.reports("move", AWAITING).await;
    let eviction = stage.turns(&pod, &turn).await;
    assert!(said(&eviction, FIRST).completion_time.is_none());
    assert_eq!(stage.evictions_of(&pod).await.len(), 1);
    beside.drains(&stage).await;
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
