//! Responders of Kubernetes' own API take part, in their order.

use evacuation_api::{Answer, ResponderState};
use evacuation_e2e::scene::{first, responder_named, responders};
use kube::api::ListParams;
use serde_json::json;

use crate::stage::{AWAITING, DELETED, EVICTOR, FIRST, SECOND, Stage, now, said, words};

#[tokio::test(flavor = "multi_thread")]
async fn each_responder_is_activated_when_the_one_before_it_is_done() {
    let stage = Stage::new("responders").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    let eviction = stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    assert!(said(&eviction, FIRST).start_time.is_some() && said(&eviction, SECOND).start_time.is_none());
    assert_eq!(words(eviction.status.unwrap().conditions.as_deref()), AWAITING);

    stage.complete(&pod, FIRST).await;
    stage.turns(&pod, &[(FIRST, "Completed"), (SECOND, "Active"), (EVICTOR, "Inactive")]).await;
    assert_eq!(stage.calls("db-0"), 0, "nobody evicts before the last one is done");
    stage.complete(&pod, SECOND).await;
    stage.reports("move", DELETED).await;
    stage.turns(&pod, &[(FIRST, "Completed"), (SECOND, "Completed"), (EVICTOR, "Completed")]).await;
    assert_eq!(stage.calls("db-0"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_responder_has_twenty_minutes_and_a_heartbeat_gives_it_twenty_more() {
    let stage = Stage::new("heartbeat").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    let eviction = stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    let evacuation = stage.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    let name = evacuation.metadata.name.unwrap();
    let start = said(&eviction, FIRST).start_time.clone().unwrap();
    let delay = async |since: i64, what: &str| {
        let evacuation = stage
            .until(&name, what, |evacuation| {
                let asked = first(evacuation);
                asked.delay_until.is_some_and(|until| until.0.timestamp() >= since + 20 * 60)
            })
            .await;
        first(&evacuation).clone()
    };
    let asked = delay(start.0.as_second(), "the responder has time").await;
    assert_eq!(
        (asked.name.as_str(), asked.state, asked.answer),
        (FIRST, ResponderState::Active, Some(Answer::Delay))
    );

    let beat = now();
    let beaten = beat.clone();
    stage
        .say(&pod, FIRST, move |said| {
            said.heartbeat_time = Some(beaten.clone());
            said.message = Some("half of it is moved".to_owned());
        })
        .await;
    let said = stage
        .until(&name, "the heartbeat counts", |evacuation| {
            first(evacuation).message.as_deref() == Some("half of it is moved")
        })
        .await;
    let until = first(&said).delay_until.unwrap().0.timestamp();
    assert!(until >= beat.0.as_second() + 20 * 60 - 1, "{until} {beat:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn responders_of_one_priority_are_asked_in_the_order_of_their_domains() {
    let stage = Stage::new("order").await;
    let (shorter, longer, other) = ("example.com/b", "a.example.com/a", "z.example.aero/a");
    let responders = json!([
        {"name": longer, "priority": 2000}, {"name": shorter, "priority": 2000}, {"name": other, "priority": 2000},
    ]);
    let pod = stage.pod_with("db-0", responders).await;
    stage.request("move", "acme.io/balance", &pod).await;
    let states = [(other, "Active"), (shorter, "Inactive"), (longer, "Inactive"), (EVICTOR, "Inactive")];
    stage.turns(&pod, &states).await;
    let evacuation = stage.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    let asked: Vec<_> = responders_of(&evacuation);
    assert_eq!(asked, [other, shorter, longer]);
}

fn responders_of(evacuation: &evacuation_api::Evacuation) -> Vec<String> {
    responders(evacuation).into_iter().map(|responder| responder.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_asks_them_too_and_the_eviction_names_who_drains() {
    let stage = Stage::new("drained").await;
    let node = format!("node-of-{}", stage.namespace());
    stage.control_plane().add_node(&node, &[]).await.unwrap();
    let pod: k8s_openapi::api::core::v1::Pod = stage
        .create(json!({
            "metadata": {"name": "db-0", "annotations": {"controlplane.test/gone-after": "100ms"}},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app"}],
                "evictionResponders": [{"name": FIRST, "priority": 10000}]},
        }))
        .await;
    let command = ["evacuate", "node", &node, "--force"];
    let drain = stage.platform().kubectl(&command);
    let respond = async {
        let eviction = stage.turns(&pod, &[(FIRST, "Active"), (EVICTOR, "Inactive")]).await;
        let requesters = eviction.status.unwrap().requesters.unwrap();
        assert!(requesters.iter().all(|r| r.name.starts_with("drain.evacuation.dev/")), "{requesters:?}");
        stage.complete(&pod, FIRST).await;
    };
    let (drained, ()) = tokio::join!(drain, respond);
    assert_eq!(drained.unwrap().code, Some(0));
    stage.turns(&pod, &[(FIRST, "Completed"), (EVICTOR, "Completed")]).await;
    let evacuation = stage.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(responder_named(&evacuation, FIRST).answer, Some(Answer::Accept));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_controller_in_between_loses_nothing() {
    let stage = Stage::alone("restarted").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    let controller = &stage.platform().controllers()[0];
    controller.kill().unwrap();
    stage.complete(&pod, FIRST).await;
    controller.restart().await.unwrap();
    stage.turns(&pod, &[(FIRST, "Completed"), (SECOND, "Active"), (EVICTOR, "Inactive")]).await;
    controller.kill().unwrap();
    stage.unrequest("move").await;
    controller.restart().await.unwrap();
    stage.turns(&pod, &[(FIRST, "Completed"), (SECOND, "Canceled"), (EVICTOR, "Inactive")]).await;
    assert!(stage.stays(&pod).await);
}
