//! client-go: the dynamic client, its informers, the metadata client, and reflectors.

use serde_json::{Value, json};

use crate::{
    program::{STEPS, all_gone, of_each_kind, settled, step, stored_by, versions},
    workbench::Workbench,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_dynamic_client_applies_and_its_second_apply_changes_nothing() {
    let bench = Workbench::new("dynamic").await;
    let wanted = bench.configurations();
    step(&bench, STEPS, &["dynamic-apply"], &wanted).await;
    let before = stored_by(&bench, &wanted, "dynamic Apply").await;
    let again = step(&bench, STEPS, &["dynamic-apply"], &wanted).await;
    assert_eq!(again, versions(&before));
    assert_eq!(settled(&bench, &wanted).await, before);
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamic_informers_follow_every_change() {
    let bench = Workbench::new("informer").await;
    let wanted = bench.configurations();
    let events = step(&bench, STEPS, &["dynamic-informer"], &wanted).await;
    assert_eq!(events, of_each_kind(&wanted, &json!(["add", "update", "delete"])));
    all_gone(&bench, &wanted).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_client_gets_lists_and_watches_metadata() {
    let bench = Workbench::new("metadata").await;
    let wanted = bench.configurations();
    for configuration in &wanted {
        bench.applied(configuration, &[]).await;
    }
    let labels = step(&bench, STEPS, &["metadata"], &wanted).await;
    assert_eq!(labels, of_each_kind(&wanted, &json!({"app": "db"})));
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reflector_fills_its_store_by_a_streaming_list_alone() {
    let bench = Workbench::new("reflector").await;
    let wanted = bench.configurations();
    for configuration in &wanted {
        bench.applied(configuration, &[]).await;
    }
    let report = step(&bench, STEPS, &["reflector"], &wanted).await;
    for configuration in &wanted {
        let kind = configuration.object["kind"].as_str().unwrap();
        let namespace = configuration.object["metadata"]["namespace"].as_str();
        let key = namespace.map_or(String::new(), |name| format!("{name}/")) + configuration.name();
        assert!(report[kind]["keys"].as_array().unwrap().contains(&json!(key)), "{report}");
        let queries = report[kind]["queries"].as_array().unwrap();
        let streams = |query: &&Value| query["sendInitialEvents"] == json!(["true"]);
        assert_eq!(queries.iter().filter(streams).count(), 1, "{kind}: {queries:?}");
        assert!(queries.iter().all(|query| query.get("watch").is_some()), "{kind}: {queries:?}");
    }
    bench.close().await;
}
