//! Requesters: they join, withdraw and ask again, and learn the end.

use controlplane::eventually;
use evacuation_e2e::{
    PodSpec,
    scene::{PATIENCE, quick},
};
use kube::{ResourceExt, api::ListParams};
use serde_json::json;

use crate::stage::{
    AWAITING, CANCELED, DELETED, EVICTOR, FIRST, INVALID, SECOND, Stage, said, states, words,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_responders_is_evicted_once_and_all_objects_say_so() {
    let stage = Stage::new("request-plain").await;
    let pod = stage.pod_with("db-0", json!([])).await;
    stage.request("move", "acme.io/balance", &pod).await;
    stage.reports("move", DELETED).await;
    let eviction = stage.turns(&pod, &[(EVICTOR, "Completed")]).await;
    let status = eviction.status.clone().unwrap();
    assert_eq!(words(status.conditions.as_deref()), DELETED);
    assert_eq!(status.observed_generation, Some(1));
    assert!(said(&eviction, EVICTOR).completion_time.is_some());
    let labels = eviction.labels();
    assert_eq!(labels.get("acme.io/balance").map(String::as_str), Some("requester"));
    assert_eq!(labels.get(EVICTOR).map(String::as_str), Some("responder"));
    let owners: Vec<_> = eviction.owner_references().iter().map(|owner| owner.kind.as_str()).collect();
    assert_eq!(owners, ["Evacuation", "EvictionRequest"]);
    assert_eq!(stage.calls("db-0"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kubectl_prints_of_them_is_true() {
    let stage = Stage::new("request-kubectl").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    stage.reports("move", AWAITING).await;
    let line = async |kind: &str| {
        let arguments = ["get", kind, "-n", stage.namespace(), "--no-headers", "-o", "wide"];
        let output = stage.platform().kubectl(&arguments).await.unwrap();
        output.stdout.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let request = line("evictionrequests").await;
    assert!(request.starts_with("move db-0 Pod Progressing acme.io/balance Eviction"), "{request}");
    let eviction = line("evictions.lifecycle.k8s.io").await;
    assert!(eviction.contains(&format!("Progressing {FIRST} (1/3)")), "{eviction}");
    assert!(eviction.contains("acme.io/balance"), "{eviction}");
    let evacuation = line("evacuations").await;
    assert!(evacuation.contains("acme.io/balance"), "{evacuation}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_eviction_goes_on_while_one_of_two_requesters_wants_it_and_is_canceled_with_the_last() {
    let stage = Stage::new("request-two").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("one", "acme.io/one", &pod).await;
    stage.request("two", "acme.io/two", &pod).await;
    let intents = |first: &str, second: &str| {
        let expected =
            [("acme.io/one".to_owned(), first.to_owned()), ("acme.io/two".to_owned(), second.to_owned())];
        let stage = &stage;
        let pod = &pod;
        async move {
            stage
                .eviction(pod, "the intents", |eviction| {
                    let all = eviction.status.as_ref().and_then(|status| status.requesters.clone());
                    let all: Vec<_> =
                        all.unwrap_or_default().into_iter().map(|r| (r.name, r.intent)).collect();
                    all == expected
                })
                .await
        }
    };
    intents("Eviction", "Eviction").await;
    let evacuation = stage.evacuations().list(&ListParams::default()).await.unwrap().items.remove(0);
    let names: Vec<_> = evacuation.spec.requesters.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["acme.io/one", "acme.io/two"]);

    stage.intend("one", "Withdrawn").await;
    let eviction = intents("Withdrawn", "Eviction").await;
    assert_eq!(states(&eviction)[0], (FIRST, "Active"), "it goes on");
    stage.reports("one", AWAITING).await;

    stage.unrequest("two").await;
    let eviction =
        stage.turns(&pod, &[(FIRST, "Canceled"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    assert_eq!(words(eviction.status.unwrap().conditions.as_deref()), CANCELED);
    stage.reports("one", CANCELED).await;
    assert!(stage.stays(&pod).await);
    assert_eq!(stage.calls("db-0"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requester_that_asks_again_after_a_cancellation_gets_another_eviction() {
    let stage = Stage::new("request-again").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    stage.intend("move", "Withdrawn").await;
    stage.reports("move", CANCELED).await;
    stage.intend("move", "Eviction").await;
    stage.reports("move", AWAITING).await;
    let second = eventually(PATIENCE, "a second Eviction", || async {
        let all = stage.evictions_of(&pod).await;
        if all.len() == 2 { Ok(all) } else { Err(format!("{all:#?}")) }
    });
    let all = second.await.unwrap();
    assert_eq!(words(all[0].status.as_ref().unwrap().conditions.as_deref()), CANCELED, "the first one stays");
    stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    for responder in [FIRST, SECOND] {
        stage.complete(&pod, responder).await;
        stage.eviction(&pod, "it is completed", |e| states(e).contains(&(responder, "Completed"))).await;
    }
    stage.reports("move", DELETED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_a_pod_that_does_not_exist_or_was_replaced_is_invalid_and_evicts_nothing() {
    let stage = Stage::new("request-missing").await;
    let pod = stage.pod_with("db-0", json!([])).await;
    let other = "11111111-2222-4333-8444-555555555555";
    stage.request_of("no-pod", "acme.io/balance", "nobody", other).await;
    stage.request_of("replaced", "acme.io/balance", "db-0", other).await;
    for request in ["no-pod", "replaced"] {
        let request = stage.reports(request, INVALID).await;
        let conditions = request.status.unwrap().conditions.unwrap();
        let failed = conditions.iter().find(|c| c.type_ == "Failed").unwrap();
        assert!(failed.message.contains(other), "{}", failed.message);
    }
    stage.intend("replaced", "Withdrawn").await;
    stage.reports("replaced", INVALID).await;
    assert!(stage.stays(&pod).await);
    assert!(stage.evictions_of(&pod).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_replaced_under_its_name_counts_as_evicted_and_its_successor_stays() {
    let stage = Stage::new("request-replaced").await;
    let pod = stage.responding_pod("db-0").await;
    stage.request("move", "acme.io/balance", &pod).await;
    stage.turns(&pod, &[(FIRST, "Active"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    stage.delete_pod(&pod).await;
    let gone = eventually(PATIENCE, "the pod is gone", || async {
        let found = stage.pods.api().get_opt("db-0").await.unwrap();
        found.map_or(Ok(()), |_| Err("it is there"))
    });
    gone.await.unwrap();
    let successor = stage.pod_with("db-0", json!([])).await;
    stage.reports("move", DELETED).await;
    // Nobody said that it was done.
    let eviction =
        stage.turns(&pod, &[(FIRST, "Interrupted"), (SECOND, "Inactive"), (EVICTOR, "Inactive")]).await;
    assert_eq!(words(eviction.status.unwrap().conditions.as_deref()), DELETED);
    assert!(stage.stays(&successor).await);
    assert_eq!(stage.calls("db-0"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requesters_than_one_owner_may_have_entries_are_all_shown_and_hold_nobody_up() {
    let stage = Stage::new("request-crowd").await;
    let pod = stage.responding_pod("db-0").await;
    for number in 0..12 {
        stage.request(&format!("crowd-{number:02}"), &format!("acme.io/crowd-{number:02}"), &pod).await;
    }
    let bystander = stage.pods.create("web-0", &quick(PodSpec::default())).await.unwrap();
    stage.request("other", "acme.io/other", &bystander).await;
    stage.reports("other", DELETED).await;
    let eviction = stage
        .eviction(&pod, "all are shown", |eviction| {
            eviction
                .status
                .as_ref()
                .and_then(|status| status.requesters.as_ref())
                .is_some_and(|all| all.len() == 12)
        })
        .await;
    assert_eq!(states(&eviction)[0], (FIRST, "Active"));
    let evacuations = stage.evacuations().list(&ListParams::default()).await.unwrap().items;
    let of_pod = evacuations.iter().find(|e| e.spec.target.pod.name == "db-0").unwrap();
    assert_eq!(of_pod.spec.requesters.len(), 8);
    for number in 0..12 {
        stage.intend(&format!("crowd-{number:02}"), "Withdrawn").await;
    }
    stage.reports("crowd-11", CANCELED).await;
}
