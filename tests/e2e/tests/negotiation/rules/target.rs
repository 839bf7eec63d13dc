//! Rule 2: the target's UID is resolved and pinned at creation, after the caller was authorised.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, entry, refused_saying, wanting},
};
use kube::{ResourceExt, api::PostParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn rule_2_who_may_not_evict_a_pod_does_not_learn_whether_it_exists() {
    let scene = Scene::new("hidden").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let spy = scene.user("spy", &[]).await;
    let rule = json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations"], "verbs": ["create"]});
    scene.grant(&spy.name, rule).await;
    let api = scene.evacuations_as(&spy.client);
    let mut said = Vec::new();
    for (name, uid) in [("app", None), ("app", pod.uid()), ("app", Some("x".to_owned())), ("ghost", None)] {
        let mut wanted = wanting(name, &[entry(ASKER, json!({}))]);
        wanted.metadata.generate_name = None;
        wanted.metadata.name = Some("probe".to_owned());
        wanted.spec.target.pod.uid = uid;
        let status = refused_saying(api.create(&PostParams::default(), &wanted).await, 403, "pods/eviction");
        said.push(status.message.replace(name, "POD"));
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
}
