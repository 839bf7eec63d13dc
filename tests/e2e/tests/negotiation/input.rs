//! Bad input: a clear error, and nothing stored.

use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, Posted, entry, in_millis, post, wanting},
};
use kube::api::ListParams;
use serde_json::{Value, json};

fn evacuation() -> Value {
    let mut wanted = json!(wanting("app", &[entry(ASKER, json!({}))]));
    wanted["apiVersion"] = json!("evacuation.dev/v1alpha1");
    wanted["kind"] = json!("Evacuation");
    wanted
}

fn message(posted: &Posted) -> &str {
    posted.body["message"].as_str().unwrap_or_default()
}

async fn nothing_is_stored(scene: &Scene) {
    let stored = scene.evacuations().list(&ListParams::default()).await.unwrap().items;
    assert!(stored.is_empty(), "{stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_evacuation_is_refused_with_the_place_of_the_mistake() {
    let scene = Scene::new("unreadable").await;
    scene.pod("app", PodSpec::watching()).await;
    let with = |field: &str, value: Value| {
        let mut wrong = evacuation();
        wrong["spec"]["requesters"][0][field] = value;
        wrong
    };
    let no_requester = {
        let mut wrong = evacuation();
        wrong["spec"]["requesters"] = json!([]);
        wrong
    };
    let cases = [
        (with("onRefusal", json!("Perhaps")), 422, "onRefusal"),
        (with("deadline", json!("10m")), 422, "deadline"),
        (with("gracePeriodSeconds", json!("60s")), 422, "gracePeriodSeconds"),
        (no_requester, 422, "spec.requesters"),
        (json!({"apiVersion": "v1", "kind": "Pod"}), 400, "(v1) does not match"),
        (json!([]), 400, ""),
    ];
    for (wrong, code, said) in cases {
        let posted = post(&scene.admin(), scene.namespace(), "", &wrong).await;
        assert_eq!(posted.code, code, "{wrong} {posted:?}");
        assert_eq!(posted.body["kind"], json!("Status"), "{posted:?}");
        assert!(message(&posted).contains(said), "{said} is not in {posted:?}");
    }
    nothing_is_stored(&scene).await;
    let good = with("deadline", in_millis(600_000));
    assert_eq!(post(&scene.admin(), scene.namespace(), "?dryRun=All", &good).await.code, 201);
    nothing_is_stored(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_does_not_exist_is_not_found() {
    let scene = Scene::new("nowhere").await;
    let posted = post(&scene.admin(), "no-such-namespace", "", &evacuation()).await;
    assert_eq!(posted.code, 404, "{posted:?}");
    assert!(message(&posted).contains("no-such-namespace"), "{posted:?}");
}
