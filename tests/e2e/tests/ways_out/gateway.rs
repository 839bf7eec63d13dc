//! Plain kubectl behind the gateway: the 429 that it gets names the command that says what holds the pod, and
//! that one the command that moves it.

use controlplane::eventually;
use evacuation_client::Answer;
use evacuation_e2e::{
    Scene,
    scene::{PATIENCE, end_of},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{EvictParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{budgets::waiting, person::Person, room::Room, scene};

/// Waits until the kube-apiserver asks the gateway.
pub(crate) async fn is_asked(scene: &Scene) {
    let (pods, gateway) = (scene.pods.api(), scene.platform().gateway().unwrap());
    let asked = eventually(PATIENCE, "the gateway is asked", || async {
        let before = gateway.count("calls", &[]).await.unwrap();
        // A pod that does not exist is asked about, too.
        pods.evict("none", &EvictParams::default()).await.unwrap_err();
        let now = gateway.count("calls", &[]).await.unwrap();
        if now > before { Ok(()) } else { Err("no call") }
    });
    asked.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_the_app_refuses_leads_to_the_request_that_continues_past_it() {
    let scene = scene("delete").await;
    let bob = Person::editor(&scene, "bob").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    is_asked(&scene).await;
    let delete = format!("kubectl delete pod app -n {}", scene.namespace());
    let refused = bob.fails(&delete).await;
    assert!(refused.contains("responder self refused: a backup runs"), "{refused}");
    let why = bob.reads(&delete, "kubectl evacuate why ").await;
    let command = bob.reads(&why, "kubectl create evacuation ").await;
    assert!(scene.stays(&room.pod).await);
    bob.runs(&command).await;
    scene.pods.gone(&room.pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_waits_for_a_refusal_leads_to_the_override_that_ends_it() {
    let scene = scene("waits").await;
    let ann = Person::drainer(&scene, "ann").await;
    let room = Room::new(&scene, Answer::refuse("a backup runs")).await;
    is_asked(&scene).await;
    let drain = format!("kubectl drain {} --force --ignore-daemonsets --timeout", room.node);
    let why = ann.reads(&format!("{drain}=15s"), "kubectl evacuate why ").await;
    let command = ann.reads(&why, "kubectl evacuate override ").await;
    assert!(scene.stays(&room.pod).await);
    ann.runs(&command).await;
    ann.runs(&format!("{drain}=90s")).await;
    scene.pods.gone(&room.pod).await.unwrap();
    let evacuation = scene.evacuation_of("app").await;
    assert_eq!(end_of(&evacuation).as_deref(), Some("Evacuated Evicted"));
}

/// The entry of a call is the gateway's, so that no command of the plugin takes it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_for_another_for_ever_is_no_longer_asked_once_the_call_that_why_names_has_ended() {
    let scene = scene("ends").await;
    let ann = Person::drainer(&scene, "ann").await;
    let namespaces: Api<Namespace> = Api::all(scene.admin());
    let all = Patch::Merge(json!({"metadata": {"labels": {"gateway.evacuation.dev/ask": "all"}}}));
    namespaces.patch(scene.namespace(), &PatchParams::default(), &all).await.unwrap();
    let (node, pod) = waiting(&scene).await;
    is_asked(&scene).await;
    let drain = format!("kubectl drain {node} --force --ignore-daemonsets --timeout=5s");
    let why = format!("kubectl evacuate why app -n {}", scene.namespace());
    let said = eventually(PATIENCE, "why names the call", || async {
        ann.fails(&drain).await;
        let said = ann.runs(&why).await;
        let words = format!("stop the call of {}, such as a drain, and the request expires at ", ann.name);
        if said.contains(&words) { Ok(said) } else { Err(said) }
    });
    let said = said.await.unwrap();
    assert!(!said.contains("kubectl evacuate cancel"), "{said}");
    let expired = eventually(PATIENCE, "each request has expired", || async {
        let all =
            scene.evacuations().list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let ends: Vec<_> = all.items.iter().map(end_of).collect();
        let has_expired = |end: &Option<String>| end.as_deref() == Some("Failed DeadlineGaveUp");
        if ends.iter().all(has_expired) { Ok(()) } else { Err(format!("{ends:?}")) }
    });
    expired.await.unwrap();
    assert!(scene.stays(&pod).await);
}
