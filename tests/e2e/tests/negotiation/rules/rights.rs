//! Rule 5: adding or hardening an entry is authorised like the act.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{answer, entry, in_millis, refused_saying, wanting},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

const ALICES: &str = "alice.example.com/repair";

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_who_may_not_evict_the_pod_neither_asks_nor_joins() {
    let scene = Scene::new("evict").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let clerk = scene.user("clerk", &[]).await;
    let rule =
        json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations"], "verbs": ["create", "patch"]});
    scene.grant(&clerk.name, rule).await;
    let api = scene.evacuations_as(&clerk.client);
    let wanted = wanting("app", &[entry(ALICES, json!({}))]);
    let created = api.create(&PostParams::default(), &wanted).await;
    refused_saying(created, 403, "pods/eviction");

    let evacuation = scene.ask(&pod, json!({})).await;
    let mut entries = json!(evacuation.spec.requesters);
    entries.as_array_mut().unwrap().push(entry(ALICES, json!({})));
    let patch = Patch::Merge(json!({"spec": {"requesters": entries}}));
    let joined = api.patch(&evacuation.name_any(), &PatchParams::default(), &patch).await;
    refused_saying(joined, 403, "pods/eviction");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_who_may_not_delete_the_pod_does_not_have_it_deleted_at_a_deadline() {
    let scene = Scene::new("delete").await;
    scene.pod("app", PodSpec::watching()).await;
    let alice = scene.user("alice", &["evacuation:requester"]).await;
    let api = scene.evacuations_as(&alice.client);
    let deleting = entry(ALICES, json!({"deadline": in_millis(600_000), "atDeadline": "Delete"}));
    let created = api.create(&PostParams::default(), &wanting("app", std::slice::from_ref(&deleting))).await;
    refused_saying(created, 403, "cannot delete resource \"pods\"");

    let evicting = entry(ALICES, json!({"deadline": in_millis(600_000), "atDeadline": "Evict"}));
    let evacuation = api.create(&PostParams::default(), &wanting("app", &[evicting])).await.unwrap();
    let harden = Patch::Merge(json!({"spec": {"requesters": [deleting]}}));
    let name = evacuation.name_any();
    let hardened = api.patch(&name, &PatchParams::default(), &harden).await;
    refused_saying(hardened, 403, "cannot delete resource \"pods\"");

    let rule =
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"], "resourceNames": ["app"]});
    let dora = scene.user("dora", &["evacuation:requester"]).await;
    scene.grant(&dora.name, rule).await;
    let mut entries = json!(evacuation.spec.requesters);
    let more = json!({"deadline": in_millis(600_000), "atDeadline": "Delete"});
    entries.as_array_mut().unwrap().push(entry("dora.example.com/repair", more));
    let join = Patch::Merge(json!({"spec": {"requesters": entries}}));
    let api = scene.evacuations_as(&dora.client);
    api.patch(&name, &PatchParams::default(), &join).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_rights_that_are_lost_later_are_not_asked_for_again() {
    let scene = Scene::new("lost").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let alice = scene.user("alice", &["evacuation:requester"]).await;
    let api = scene.evacuations_as(&alice.client);
    let wanted = wanting("app", &[entry(ALICES, json!({}))]);
    let created = api.create(&PostParams::default(), &wanted).await.unwrap();
    let evacuation = scene.reached(&created, 0).await;

    let bindings = scene.bindings();
    bindings.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let right = json!({"resource": "pods", "subresource": "eviction", "verb": "create", "name": "app"});
    scene.decided(&alice.name, &right, false).await;
    answer(&scene.client_of(&pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
}
