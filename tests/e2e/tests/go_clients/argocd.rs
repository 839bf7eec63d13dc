//! Argo CD: the engine by which its controller compares and syncs.

use serde_json::{Value, json};

use crate::{
    program::{ARGO_CD, all_gone, drift, settled, step, stored_by},
    workbench::{Configuration, Workbench},
};

/// Ways in which Argo CD compares.
const WAYS: [&str; 3] = ["serverSide", "structuredMerge", "threeWay"];

/// Returns the kinds that differ, by the way of comparing.
async fn differences(bench: &Workbench, wanted: &[Configuration]) -> Value {
    let arguments = ["--namespace", bench.namespace(), "--sync=false"];
    let mut found = step(bench, ARGO_CD, &arguments, wanted).await["differences"].take();
    for kinds in found.as_object_mut().unwrap().values_mut() {
        let mut sorted: Vec<_> = kinds.as_array().unwrap().clone();
        sorted.sort_by_key(ToString::to_string);
        *kinds = json!(sorted);
    }
    found
}

/// Syncs with pruning, and returns the result of each kind.
async fn sync(bench: &Workbench, wanted: &[Configuration], more: &[&str]) -> Value {
    let arguments = [&["--namespace", bench.namespace()], more].concat();
    step(bench, ARGO_CD, &arguments, wanted).await["synced"].take()
}

/// Returns the report of differences in all ways.
fn in_all_ways(kinds: &Value) -> Value {
    json!(WAYS.map(|way| (way.to_owned(), kinds.clone())).into_iter().collect::<serde_json::Map<_, _>>())
}

const KINDS: [&str; 4] = ["Evacuation", "EvacuationResponder", "NodeEvacuation", "NodeEvacuationRule"];

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_syncs_by_server_side_apply_sees_no_difference_and_prunes() {
    let bench = Workbench::new("argocd").await;
    let mut wanted = bench.configurations();
    wanted[3].object["spec"]["requesters"][0]["owner"] = json!("admin");
    assert_eq!(differences(&bench, &wanted).await, in_all_ways(&json!(KINDS)));
    let synced = sync(&bench, &wanted, &[]).await;
    for kind in KINDS {
        let said = synced[kind].as_str().unwrap_or_default();
        assert!(said.starts_with("Synced: ") && said.ends_with("serverside-applied"), "{kind}: {synced}");
    }
    let before = stored_by(&bench, &wanted, "argocd-controller Apply").await;
    assert_eq!(differences(&bench, &wanted).await, in_all_ways(&json!([])));
    sync(&bench, &wanted, &[]).await;
    assert_eq!(settled(&bench, &wanted).await, before, "the second sync changes nothing");

    drift(&bench, &wanted).await;
    assert_eq!(differences(&bench, &wanted).await, in_all_ways(&json!(KINDS)));
    sync(&bench, &wanted, &[]).await;
    for (configuration, object) in wanted.iter().zip(settled(&bench, &wanted).await) {
        assert_eq!(configuration.value(&object), configuration.value(&configuration.object));
    }
    assert_eq!(differences(&bench, &wanted).await, in_all_ways(&json!([])));

    let pruned = sync(&bench, &wanted[..1], &[]).await;
    for kind in ["Evacuation", "NodeEvacuation", "NodeEvacuationRule"] {
        assert_eq!(pruned[kind], "Pruned: pruned", "{pruned}");
    }
    assert!(bench.find(&wanted[0]).await.is_some());
    all_gone(&bench, &wanted[1..]).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_without_its_owner_differs_unless_the_server_compares() {
    let bench = Workbench::new("argocdowner").await;
    let wanted = [bench.evacuation()];
    sync(&bench, &wanted, &[]).await;
    let before = stored_by(&bench, &wanted, "argocd-controller Apply").await;
    let found = differences(&bench, &wanted).await;
    // The owner is a part of the entry's key. Argo CD's own merge does not know that the server fills it in.
    assert_eq!(found["structuredMerge"], json!(["Evacuation"]));
    assert_eq!(found["serverSide"], json!([]));
    sync(&bench, &wanted, &[]).await;
    assert_eq!(settled(&bench, &wanted).await, before, "and a sync changes nothing");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_syncs_by_client_side_apply_and_sees_no_difference() {
    let bench = Workbench::new("argocdclient").await;
    let mut wanted = bench.configurations();
    // Client-side apply replaces the list, and the server fills these fields in.
    let entry = &mut wanted[3].object["spec"]["requesters"][0];
    entry["owner"] = json!("admin");
    entry["onRefusal"] = json!("Wait");
    entry["window"]["timeZone"] = json!("UTC");
    sync(&bench, &wanted, &["--server-side=false"]).await;
    let before = settled(&bench, &wanted).await;
    assert_eq!(differences(&bench, &wanted).await["threeWay"], json!([]));
    sync(&bench, &wanted, &["--server-side=false"]).await;
    assert_eq!(settled(&bench, &wanted).await, before);
    // The option ServerSideApply moves the application.
    let shortened = wanted.each_ref().map(Configuration::shortened);
    sync(&bench, &shortened, &[]).await;
    assert_eq!(differences(&bench, &shortened).await["serverSide"], json!([]));
    bench.close().await;
}
