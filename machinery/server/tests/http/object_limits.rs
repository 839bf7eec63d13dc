//! Limits on the number and size of the objects of a namespace.

use futures::future::join_all;
use machinery_server::ObjectLimits;
use machinery_storage::{Operation, Store, Transaction};
use serde_json::{Value, json};

use crate::support::{Client, Kitchen, Setup, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

async fn kitchen(limits: ObjectLimits) -> Kitchen {
    Kitchen::with(Setup { limits: Some(limits), ..Setup::default() }).await
}

fn soup(name: &str) -> Value {
    pot(name, json!({"dish": "soup"}))
}

fn sized(name: &str, size: usize) -> Value {
    pot(name, json!({"dish": "x".repeat(size)}))
}

#[tokio::test]
async fn of_many_creates_at_once_as_many_succeed_as_the_namespace_has_room_for() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 16, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    let answers = join_all((0..60).map(|at| {
        let client = client.clone();
        async move { client.post(POTS, &soup(&format!("p{at}"))).await }
    }))
    .await;
    let created = answers.iter().filter(|answer| answer.code == 201).count();
    assert_eq!(created, 12, "a quarter of sixteen is reserved");
    let refused = answers.iter().find(|answer| answer.code != 201).expect("a refusal");
    let status = refused.refused(403, "Forbidden");
    let cause = json!({
        "reason": "NamespaceObjectLimit",
        "message": "objects of the namespace: requested 1, used 12, limit 12",
    });
    assert_eq!(status["details"]["causes"], json!([cause]), "{status}");
    let message = status["message"].as_str().expect("text");
    assert!(message.contains("is forbidden: exceeded the limit on objects of the namespace"), "{message}");
    client.post("/apis/kitchen.dev/v1/namespaces/m/pots", &soup("p")).await.expect(201);
}

#[tokio::test]
async fn a_full_namespace_keeps_room_for_those_who_act_for_all_namespaces() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 4, ..ObjectLimits::NONE }).await;
    let (cook, chef) = (kitchen.client(), kitchen.client_of("chef"));
    for name in ["a", "b", "c"] {
        cook.post(POTS, &soup(name)).await.expect(201);
    }
    cook.post(POTS, &soup("d")).await.refused(403, "Forbidden");
    chef.post(POTS, &soup("d")).await.expect(201);
    chef.post(POTS, &soup("e")).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn a_deletion_in_a_full_namespace_succeeds_and_makes_room_at_once() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 1, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    for _ in 0..20 {
        client.post(POTS, &soup("a")).await.expect(201);
        client.post(POTS, &soup("b")).await.refused(403, "Forbidden");
        client.delete(A).await.expect(200);
    }
}

#[tokio::test]
async fn an_update_that_grows_is_limited_and_one_of_the_status_is_not() {
    let kitchen = kitchen(ObjectLimits { namespace_bytes: 4000, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    client.post(POTS, &sized("a", 1000)).await.expect(201);
    client.post(POTS, &sized("b", 2000)).await.refused(403, "Forbidden");
    let annotated = |size: usize| json!({"metadata": {"annotations": {"why": "x".repeat(size)}}});
    let status = client.merge(A, &annotated(2000)).await.refused(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceByteLimit", "{status}");
    client.merge(A, &annotated(500)).await.expect(200);

    // As from before there was a limit.
    let full =
        Operation::Put("/registry/kitchen.dev/pots/n/old".to_owned(), sized("old", 9000).to_string().into());
    let write = Transaction { preconditions: Vec::new(), operations: vec![full] };
    kitchen.store.commit(write).await.expect("written");
    client.get(POTS).await.expect(200);
    client.merge(A, &annotated(501)).await.refused(403, "Forbidden");
    client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    client.post(&format!("{A}/stir"), &json!({"times": 1_000_000_000})).await.expect(201);
    client.merge(A, &annotated(100)).await.expect(200);
    client.delete(&format!("{POTS}/old")).await.expect(200);
    client.merge(A, &annotated(501)).await.expect(200);
}

#[tokio::test]
async fn all_namespaces_together_have_a_limit() {
    let kitchen = kitchen(ObjectLimits { total_bytes: 4000, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    client.post(POTS, &sized("a", 2000)).await.expect(201);
    let elsewhere = client.post("/apis/kitchen.dev/v1/namespaces/m/pots", &sized("a", 2000)).await;
    let status = elsewhere.refused(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "TotalByteLimit", "{status}");
}

/// # Attack
///
/// - Attacker: a tenant with many namespaces
/// - Act: fills them, so that nobody else can store an object
/// - Promise: 8
#[tokio::test]
async fn full_namespaces_leave_room_for_a_few_objects_of_each_other() {
    let kitchen = kitchen(ObjectLimits { total_bytes: 2_048_000, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    let pots = |namespace: &str| format!("/apis/kitchen.dev/v1/namespaces/{namespace}/pots");
    for number in 0..15 {
        client.post(&pots(&format!("full-{number}")), &sized("a", 100_000)).await.expect(201);
    }
    let more = client.post(&pots("full-0"), &sized("b", 100_000)).await.refused(403, "Forbidden");
    assert_eq!(more["details"]["causes"][0]["reason"], "TotalByteLimit", "{more}");
    client.post(&pots("other"), &sized("a", 500)).await.expect(201);
    client.post(&pots("other"), &sized("b", 100_000)).await.refused(403, "Forbidden");
    let mut passed = 0;
    for number in 0..250 {
        let answer = client.post(&pots(&format!("small-{number}")), &sized("a", 1000)).await;
        passed += usize::from(answer.code == 201);
    }
    assert!((50..250).contains(&passed), "{passed}: the rest of the reserve is kept");
}

#[tokio::test]
async fn refusals_and_usage_are_measured() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 1, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    client.post(POTS, &soup("a")).await.expect(201);
    client.post(POTS, &soup("b")).await.refused(403, "Forbidden");
    let text = client.get("/metrics").await.text();
    let pots = r#"{group="kitchen.dev",resource="pots"} 1"#;
    for name in [
        "apiserver_resource_objects",
        "apiserver_storage_largest_namespace_objects",
        "apiserver_storage_limit_refusals_total",
    ] {
        assert!(text.contains(&format!("{name}{pots}\n")), "{name}: {text}");
    }
}

#[tokio::test]
async fn the_cache_is_filled_in_pages_that_are_small_when_the_objects_are_large() {
    for (size, largest) in [(10, 150), (50_000, 100)] {
        let mut first = Kitchen::open().await;
        let client = first.client();
        let pots: Vec<_> = (0..250).map(|at| sized(&format!("p{at}"), size)).collect();
        for pots in pots.chunks(50) {
            join_all(pots.iter().map(|pot| client.post(POTS, pot))).await;
        }
        first.close().await;
        let again = Kitchen::with(first.setup_again()).await;
        let list = again.client().get(&format!("{POTS}?limit=1")).await.expect(200);
        assert_eq!(list["metadata"]["remainingItemCount"], 249);
        assert_eq!(again.store.largest_page(), largest, "{size} bytes each");
    }
}

/// Sets the status of a pot that is done; one that was stirred gives way.
async fn finish(client: &Client, name: &str, stirred: i64) {
    let status = json!({"status": {"done": true, "stirred": stirred}});
    client.merge(&format!("{POTS}/{name}/status"), &status).await.expect(200);
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.get(POTS).await.expect(200);
    let items = list["items"].as_array().expect("items").clone();
    items.iter().map(|pot| pot["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn what_is_done_gives_way_before_the_reserve_and_what_is_not_stays() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 4, ..ObjectLimits::NONE }).await;
    let (cook, chef) = (kitchen.client(), kitchen.client_of("chef"));
    for name in ["a", "b", "c"] {
        cook.post(POTS, &soup(name)).await.expect(201);
    }
    finish(&cook, "a", 2).await;
    finish(&cook, "b", 1).await;
    finish(&cook, "c", 0).await;
    cook.post(&format!("{POTS}?dryRun=All"), &soup("d")).await.expect(201);
    assert_eq!(names(&cook).await, ["a", "b", "c"], "a dry run removes nothing");
    chef.post(POTS, &soup("d")).await.expect(201);
    assert_eq!(names(&cook).await, ["a", "c", "d"]);
    cook.post(POTS, &soup("e")).await.expect(201);
    assert_eq!(names(&cook).await, ["c", "d", "e"]);
    cook.post(POTS, &soup("f")).await.refused(403, "Forbidden");
    chef.post(POTS, &soup("f")).await.expect(201);
    let text = cook.get("/metrics").await.text();
    let removals = r#"apiserver_storage_limit_removals_total{group="kitchen.dev",resource="pots"} 2"#;
    assert!(text.contains(&format!("{removals}\n")), "{text}");
}

#[tokio::test]
async fn a_pot_with_a_finalizer_stays_and_nothing_is_removed_in_vain() {
    let kitchen = kitchen(ObjectLimits { namespace_bytes: 12_000, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    let mut held = sized("a", 2500);
    held["metadata"]["finalizers"] = json!(["kitchen.dev/clean"]);
    client.post(POTS, &held).await.expect(201);
    client.post(POTS, &sized("b", 4000)).await.expect(201);
    finish(&client, "a", 1).await;
    finish(&client, "b", 2).await;
    client.post(POTS, &sized("c", 8000)).await.refused(403, "Forbidden");
    assert_eq!(names(&client).await, ["a", "b"], "b alone is too little");
    client.post(POTS, &sized("c", 3000)).await.expect(201);
    assert_eq!(names(&client).await, ["a", "c"]);
}

/// # Attack
///
/// - Attacker: a tenant
/// - Act: makes and finishes many objects, so that the history of others gives way
/// - Promise: 8
#[tokio::test]
async fn the_history_of_a_flow_that_has_less_outlives_a_flood_of_another() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 16, ..ObjectLimits::NONE }).await;
    let (cook, other) = (kitchen.client(), kitchen.client_of("other"));
    for name in ["mine-0", "mine-1"] {
        other.post(POTS, &soup(name)).await.expect(201);
        finish(&other, name, 1).await;
    }
    for at in 0..40 {
        let name = format!("flood-{at}");
        cook.post(POTS, &soup(&name)).await.expect(201);
        finish(&cook, &name, 2 + at).await;
    }
    let left = names(&cook).await;
    assert_eq!(left.len(), 12);
    assert!(
        ["mine-0", "mine-1", "flood-39"].iter().all(|name| left.iter().any(|one| one == name)),
        "{left:?}"
    );
}

/// # Attack
///
/// - Attacker: a tenant
/// - Act: keeps its finished objects with finalizers, so that the history of others gives way in their place
/// - Promise: 8
#[tokio::test]
async fn objects_that_finalizers_hold_count_and_those_who_act_for_all_pass_them_by() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 8, ..ObjectLimits::NONE }).await;
    let (cook, other, chef) = (kitchen.client(), kitchen.client_of("other"), kitchen.client_of("chef"));
    other.post(POTS, &soup("mine")).await.expect(201);
    finish(&other, "mine", 1).await;
    for name in ["held-0", "held-1", "held-2", "held-3", "held-4"] {
        let mut held = soup(name);
        held["metadata"]["finalizers"] = json!(["kitchen.dev/clean"]);
        cook.post(POTS, &held).await.expect(201);
        finish(&cook, name, 2).await;
    }
    cook.post(POTS, &soup("more")).await.refused(403, "Forbidden");
    for name in ["chef-0", "chef-1"] {
        chef.post(POTS, &soup(name)).await.expect(201);
    }
    assert!(names(&cook).await.contains(&"mine".to_owned()), "the reserve is used first");
    chef.post(POTS, &soup("chef-2")).await.expect(201);
    assert!(!names(&cook).await.contains(&"mine".to_owned()));
    chef.post(POTS, &soup("chef-3")).await.refused(403, "Forbidden");
}

/// # Attack
///
/// - Attacker: a tenant
/// - Act: keeps its finished objects with finalizers, so that writes in other namespaces find no room
/// - Promise: 8
#[tokio::test]
async fn objects_that_finalizers_hold_keep_no_other_namespace_from_room() {
    let kitchen = kitchen(ObjectLimits { total_bytes: 16_000, ..ObjectLimits::NONE }).await;
    let (cook, other) = (kitchen.client(), kitchen.client_of("other"));
    for name in ["held-0", "held-1"] {
        let mut held = sized(name, 2500);
        held["metadata"]["finalizers"] = json!(["kitchen.dev/clean"]);
        let pots = "/apis/kitchen.dev/v1/namespaces/m/pots";
        cook.post(pots, &held).await.expect(201);
        let done = json!({"status": {"done": true, "stirred": 1}});
        cook.merge(&format!("{pots}/{name}/status"), &done).await.expect(200);
    }
    other.post(POTS, &sized("old", 2500)).await.expect(201);
    finish(&other, "old", 1).await;
    other.post(POTS, &sized("new", 2500)).await.expect(201);
    assert_eq!(names(&other).await, ["new"]);
}

#[tokio::test]
async fn of_many_creates_at_once_each_gets_the_room_of_one_that_is_done() {
    let kitchen = kitchen(ObjectLimits { namespace_objects: 16, ..ObjectLimits::NONE }).await;
    let client = kitchen.client();
    for at in 0..12 {
        let name = format!("old-{at}");
        client.post(POTS, &soup(&name)).await.expect(201);
        finish(&client, &name, 1).await;
    }
    let answers = join_all((0..12).map(|at| {
        let client = client.clone();
        async move { client.post(POTS, &soup(&format!("new-{at}"))).await }
    }))
    .await;
    assert!(answers.iter().all(|answer| answer.code == 201), "{answers:?}");
    assert!(names(&client).await.iter().all(|name| name.starts_with("new-")));
}
