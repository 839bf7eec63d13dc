//! controller-runtime: applies, CreateOrUpdate, and informers of its cache.

use serde_json::json;

use crate::{
    program::{STEPS, all_gone, of_each_kind, settled, step, stored_by, versions},
    workbench::{Configuration, Workbench},
};

#[tokio::test(flavor = "multi_thread")]
async fn controller_runtime_applies_and_takes_fields_by_force() {
    let bench = Workbench::new("runtime").await;
    let wanted = bench.configurations();
    step(&bench, STEPS, &["runtime-apply"], &wanted).await;
    let before = stored_by(&bench, &wanted, "runtime Apply").await;
    let again = step(&bench, STEPS, &["runtime-apply"], &wanted).await;
    assert_eq!(again, versions(&before), "the second apply changes nothing");
    assert_eq!(settled(&bench, &wanted).await, before);

    let changed = wanted.each_ref().map(Configuration::changed);
    let forced = step(&bench, STEPS, &["runtime-patch"], &changed).await;
    for (configuration, object) in changed.iter().zip(settled(&bench, &wanted).await) {
        let kind = configuration.object["kind"].as_str().unwrap();
        let cause = json!({
            "reason": "FieldManagerConflict", "message": "conflict with \"runtime\"",
            "field": configuration.path,
        });
        assert_eq!(forced["conflicts"][kind], json!([cause]));
        assert_eq!(configuration.value(&object), configuration.other);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn create_or_update_creates_then_changes_nothing_then_updates() {
    let bench = Workbench::new("runtimeupdate").await;
    let mut wanted = bench.configurations();
    let incomplete = [bench.evacuation()];
    for result in ["created", "updated"] {
        let said = step(&bench, STEPS, &["runtime-create-or-update"], &incomplete).await;
        assert_eq!(said, of_each_kind(&incomplete, &json!(result)), "the server fills fields in");
    }
    bench.removes(&incomplete[0]).await;
    let entry = &mut wanted[3].object["spec"]["requesters"][0];
    entry["owner"] = json!("admin");
    entry["onRefusal"] = json!("Wait");
    entry["window"]["timeZone"] = json!("UTC");
    for (configurations, result) in [
        (wanted.clone(), "created"),
        (wanted.clone(), "unchanged"),
        (wanted.each_ref().map(Configuration::changed), "updated"),
    ] {
        let said = step(&bench, STEPS, &["runtime-create-or-update"], &configurations).await;
        assert_eq!(said, of_each_kind(&wanted, &json!(result)));
        stored_by(&bench, &configurations, "gitops Update").await;
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_of_controller_runtime_follows_every_change() {
    let bench = Workbench::new("runtimecache").await;
    let wanted = bench.configurations();
    let events = step(&bench, STEPS, &["runtime-cache"], &wanted).await;
    assert_eq!(events, of_each_kind(&wanted, &json!(["add", "update", "delete"])));
    all_gone(&bench, &wanted).await;
    bench.close().await;
}
