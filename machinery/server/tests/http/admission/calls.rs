//! Calls of plugins: for which writes, in which order, and with which objects and options.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    A, POTS,
    guard::{Change, Guard, guarded},
};
use crate::support::pot;

#[tokio::test]
async fn every_kind_of_write_is_mutated_first_and_validated_last() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let mut a = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(guard.steps(), ["mutate Create pots a", "validate Create pots a"]);
    a["spec"]["servings"] = json!(3);
    client.put(A, &a).await.expect(200);
    client.merge(A, &json!({"spec": {"servings": 4}})).await.expect(200);
    let update = ["mutate Update pots a", "validate Update pots a"];
    assert_eq!(guard.steps(), [update, update].concat());
    client.merge(&format!("{A}/status"), &json!({"status": {"stirred": 1}})).await.expect(200);
    assert_eq!(guard.steps(), ["mutate Update pots/status a", "validate Update pots/status a"]);
    let applied = json!({"apiVersion": "kitchen.dev/v1", "kind": "Pot", "metadata": {"name": "b"},
        "spec": {"dish": "stew"}});
    let apply = |servings: i64| {
        let mut applied = applied.clone();
        applied["spec"]["servings"] = json!(servings);
        let client = client.clone();
        async move {
            let headers = [("content-type", "application/apply-patch+yaml")];
            let path = format!("{POTS}/b?fieldManager=flux");
            client.send("PATCH", &path, &headers, applied.to_string().into()).await
        }
    };
    apply(1).await.expect(201);
    apply(2).await.expect(200);
    let steps =
        ["mutate Create pots b", "validate Create pots b", "mutate Update pots b", "validate Update pots b"];
    assert_eq!(guard.steps(), steps);
    client.send("DELETE", A, &[], Bytes::new()).await.expect(200);
    assert_eq!(guard.steps(), ["mutate Delete pots a", "validate Delete pots a"]);
    client.send("DELETE", POTS, &[], Bytes::new()).await.expect(200);
    assert_eq!(guard.steps(), ["mutate Delete pots b", "validate Delete pots b"]);
}

#[tokio::test]
async fn an_action_is_admitted_and_the_writes_of_the_server_are_not() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    guard.calls();
    let stir = json!({"times": 2});
    client.post(&format!("{A}/stir"), &stir).await.expect(201);
    assert_eq!(guard.steps(), ["mutate Create pots/stir a", "validate Create pots/stir a"]);
}

#[tokio::test]
async fn the_validation_sees_the_object_as_it_is_stored_and_the_old_one() {
    let guard = Guard::changing(|pot| pot["metadata"]["labels"] = json!({"seen": "yes"}));
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let created = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    let calls = guard.calls();
    assert_eq!(calls[0].object["spec"]["servings"], 2, "defaults come first");
    assert_eq!(calls[0].object["spec"].get("owner"), None, "the strategy comes later");
    assert_eq!(calls[1].object["spec"]["owner"], "cook");
    assert_eq!(
        (&calls[1].object["metadata"]["labels"]["seen"], &calls[1].old),
        (&json!("yes"), &Value::Null)
    );
    let headers = [("content-type", "application/merge-patch+json")];
    let path = format!("{A}?dryRun=All&fieldManager=spoon&fieldValidation=Strict");
    let change = json!({"spec": {"servings": 5}}).to_string();
    client.send("PATCH", &path, &headers, change.into()).await.expect(200);
    let calls = guard.calls();
    assert!(calls.iter().all(|call| call.dry_run && call.old == created), "{calls:?}");
    let options = json!({"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
        "fieldManager": "spoon", "fieldValidation": "Strict"});
    assert_eq!(calls[1].options, options);
    let headers = [("content-type", "application/json")];
    let options =
        json!({"propagationPolicy": "Foreground", "preconditions": {"uid": created["metadata"]["uid"]}});
    client.send("DELETE", A, &headers, options.to_string().into()).await.expect(200);
    let call = guard.calls().pop().expect("a call");
    assert_eq!((&call.object, &call.old), (&Value::Null, &created));
    assert_eq!(call.options["propagationPolicy"], "Foreground");
    assert_eq!(call.options["preconditions"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test]
async fn a_write_that_nothing_intercepts_costs_one_look() {
    let guard = Guard::idle();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    client.merge(A, &json!({"spec": {"servings": 4}})).await.expect(200);
    client.send("DELETE", A, &[], Bytes::new()).await.expect(200);
    assert_eq!(guard.looks.load(Ordering::Relaxed), 3);
    assert!(guard.calls().is_empty());
}

#[tokio::test]
async fn plugins_are_asked_once_for_a_write_and_again_only_after_a_conflict() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    for servings in 3..6 {
        client.merge(A, &json!({"spec": {"servings": servings}})).await.expect(200);
    }
    // One for the creation, three for the changes, although the cache may lag behind each time.
    assert_eq!(guard.calls().iter().filter(|call| call.step == "mutate").count(), 4);
    // The plugin's first call lets another write come first.
    let pots = kitchen.pots.clone();
    let once = AtomicUsize::new(0);
    let handle = tokio::runtime::Handle::current();
    let change: Change = Box::new(move |_| {
        if once.fetch_add(1, Ordering::Relaxed) == 0 {
            let (pots, handle) = (pots.clone(), handle.clone());
            let other = std::thread::spawn(move || {
                let user = machinery_auth::UserInfo::default();
                let context = machinery_server::RequestContext::new(user, "n", chrono::Utc::now());
                let change = |pot: &mut crate::support::Pot| {
                    pot.spec.tags = vec!["other".to_owned()];
                    Ok(())
                };
                handle.block_on(pots.mutate(&context, "n", "a", change)).map(drop)
            });
            other.join().expect("no panic").expect("the other write");
        }
    });
    *guard.change.lock().expect("no panic") = Some(change);
    let changed = client.merge(A, &json!({"spec": {"servings": 9}})).await.expect(200);
    assert_eq!((&changed["spec"]["servings"], &changed["spec"]["tags"]), (&json!(9), &json!(["other"])));
    let calls = guard.calls();
    assert_eq!(calls.iter().filter(|call| call.step == "mutate").count(), 2);
    assert_eq!(calls[2].old["spec"]["tags"], json!(["other"]));
}

#[tokio::test]
async fn a_plugin_sees_the_options_of_a_deletion_as_they_were_sent() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let cases = [
        json!({"gracePeriodSeconds": 0}),
        json!({"gracePeriodSeconds": 30, "propagationPolicy": "Background"}),
        json!({"orphanDependents": false}),
        json!({"orphanDependents": true}),
        json!({"propagationPolicy": "Orphan"}),
    ];
    for mut options in cases {
        client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
        guard.calls();
        client.delete_with(A, &options).await;
        let call = guard.calls().pop().expect("a call");
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("meta.k8s.io/v1");
        assert_eq!(call.options, options);
        client.merge(A, &json!({"metadata": {"finalizers": null}})).await;
    }
}
