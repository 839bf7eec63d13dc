//! Rule 2: the target's UID is resolved and pinned at creation, after the caller was authorised.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, entry, fields, refused, refused_for, refused_saying, wanting},
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn rule_2_a_target_that_does_not_exist_is_refused_with_its_name() {
    let scene = Scene::new("unknown").await;
    let wanted = wanting("nobody", &[entry(ASKER, json!({}))]);
    let refused = scene.evacuations().create(&PostParams::default(), &wanted).await;
    let status = refused_saying(refused, 422, "nobody");
    assert_eq!(fields(&status), ["spec.target.pod.name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_2_the_uid_is_that_of_the_live_pod_and_another_one_is_refused() {
    let scene = Scene::new("uid").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let mut wanted = wanting("app", &[entry(ASKER, json!({}))]);
    wanted.spec.target.pod.uid = Some("6f1c2d7e-0000-4000-8000-000000000000".to_owned());
    let other = scene.evacuations().create(&PostParams::default(), &wanted).await;
    let status = refused_for(other, 409, "WrongPod");
    assert_eq!(fields(&status), ["spec.target.pod.uid"]);
    assert!(status.message.contains(&pod.uid().unwrap()), "{status:?}");

    let pinned = scene.ask(&pod, json!({})).await;
    assert_eq!(pinned.spec.target.pod.uid, pod.uid());
    for change in [json!({"uid": "another"}), json!({"name": "another"})] {
        let patch = Patch::Merge(json!({"spec": {"target": {"pod": change}}}));
        let changed = scene.evacuations().patch(&pinned.name_any(), &PatchParams::default(), &patch).await;
        let status = refused(changed);
        assert_eq!((status.code, fields(&status)), (422, vec!["spec.target"]));
    }
}

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
