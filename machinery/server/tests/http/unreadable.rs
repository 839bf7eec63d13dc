use bytes::Bytes;
use machinery_storage::{Operation, Store, Transaction};
use serde_json::json;

use crate::support::{Answer, Client, Kitchen, eventually, pot, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const ALL_POTS: &str = "/apis/kitchen.dev/v1/pots";
const STOVES: &str = "/apis/kitchen.dev/v1/stoves";
const KEY: &str = "/registry/kitchen.dev/pots/n/a";

/// Writes past the server, as another version of it would.
async fn write(kitchen: &Kitchen, operation: Operation) {
    let transaction = Transaction { preconditions: Vec::new(), operations: vec![operation] };
    kitchen.store.commit(transaction).await.expect("written");
}

async fn garble(kitchen: &Kitchen, key: &str) {
    write(kitchen, Operation::Put(key.to_owned(), Bytes::from_static(b"{}"))).await;
}

/// The names in a list.
fn names(list: &Answer) -> Vec<String> {
    let list = list.expect(200);
    let items = list["items"].as_array().expect("items");
    items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

async fn make_pots(client: &Client, names: &[&str]) {
    for name in names {
        client.create_pot(name, json!({"dish": "soup"})).await;
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_never_reported_as_deleted() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let first = client.create_pot("a", json!({"dish": "soup"})).await;
    client.create_pot("b", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(watch.event().await.1, "a");
    assert_eq!(watch.event().await.1, "b");
    let mut other = client.watch("/apis/kitchen.dev/v1/namespaces/m/pots?watch=true").await;

    write(&kitchen, Operation::Put(KEY.to_owned(), Bytes::from_static(b"{}"))).await;
    assert_eq!(watch.next().await, None, "the end, and no deletion");
    for path in [
        POTS.to_owned(),
        "/apis/kitchen.dev/v1/pots".to_owned(),
        format!("{POTS}?resourceVersion=0"),
        format!("{POTS}?limit=1"),
        format!("{POTS}?watch=true"),
        format!("{POTS}/a?resourceVersion=0"),
    ] {
        let status = client.get(&path).await.refused(500, "StorageReadError");
        let cause = &status["details"]["causes"][0];
        assert_eq!((&cause["reason"], &cause["field"]), (&json!("UnexpectedServerResponse"), &json!("n/a")));
        let message = status["message"].as_str().expect("text");
        assert!(message.contains("n/a"), "{path}: {message}");
    }
    client.get(&format!("{POTS}/a")).await.refused(500, "InternalError");
    client.get(&format!("{POTS}/b")).await.expect(200);
    let elsewhere = "/apis/kitchen.dev/v1/namespaces/m/pots";
    client.get(elsewhere).await.expect(200);
    client.post(elsewhere, &pot("c", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(other.event().await.1, "c", "other namespaces go on");

    write(&kitchen, Operation::Delete(KEY.to_owned())).await;
    eventually("the rest can be listed", || async { client.get(POTS).await.code == 200 }).await;
    let items = client.get(POTS).await.expect(200)["items"].clone();
    assert_eq!(items.as_array().map(Vec::len), Some(1), "{items}");
    let old = format!("{POTS}?watch=true&resourceVersion={}", revision(&first));
    let event = client.watch(&old).await.next().await.expect("an event");
    assert_eq!(event["object"]["reason"], "Expired", "{event}");
}

#[tokio::test]
async fn objects_that_cannot_be_read_at_the_start_are_reported_too() {
    let mut kitchen = Kitchen::open().await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    kitchen.close().await;
    write(&kitchen, Operation::Put(KEY.to_owned(), Bytes::from_static(b"[]"))).await;
    let kitchen = Kitchen::with(kitchen.setup_again()).await;
    let status = kitchen.client().get(POTS).await.refused(500, "StorageReadError");
    assert!(status["message"].as_str().expect("text").contains("n/a"), "{status}");
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_deleted_by_callers_with_the_right_and_the_option() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    client.create_pot("b", json!({"dish": "soup"})).await;
    write(&kitchen, Operation::Put(KEY.to_owned(), Bytes::from_static(b"{}"))).await;
    let (one, chef) = (format!("{POTS}/a"), kitchen.client_of("chef"));
    let ignoring = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});

    chef.delete(&one).await.refused(500, "InternalError");
    let status = client.delete_with(&one, &ignoring).await.refused(403, "Forbidden");
    assert_eq!(
        status["message"],
        "pots.kitchen.dev \"a\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: cooks \
         are careful"
    );
    let mut wrong = ignoring.clone();
    wrong["propagationPolicy"] = json!("Orphan");
    wrong["preconditions"] = json!({"uid": "u"});
    let status = chef.delete_with(&one, &wrong).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(2), "{status}");
    chef.delete_with(POTS, &ignoring).await.refused(422, "Invalid");
    chef.delete_with(&format!("{POTS}/b"), &ignoring).await.refused(409, "Conflict");
    chef.delete_with(&format!("{POTS}/none"), &ignoring).await.refused(404, "NotFound");
    chef.delete_with(&format!("{one}?dryRun=All"), &ignoring).await.expect(200);
    client.get(&one).await.refused(500, "InternalError");

    let query = format!("{one}?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    assert_eq!(chef.delete(&query).await.expect(200)["status"], "Success");
    client.get(&one).await.refused(404, "NotFound");
    eventually("the rest can be listed", || async { client.get(POTS).await.code == 200 }).await;
    client.create_pot("c", json!({"dish": "soup", "stove": "1"})).await;
}

#[tokio::test]
async fn a_caller_that_skips_unreadable_objects_lists_all_others_in_every_way() {
    let mut kitchen = Kitchen::open().await;
    let client = kitchen.client();
    make_pots(&client, &["a", "b", "c"]).await;
    let before = client.get(POTS).await.expect(200);
    garble(&kitchen, KEY).await;
    eventually("the cache knows it", || async {
        client.get(&format!("{POTS}?resourceVersion=0")).await.code == 500
    })
    .await;
    // From the cache, and from a server that starts with it.
    for round in ["running", "started"] {
        let (plain, skips) = (kitchen.client(), kitchen.client().skipping_unreadable());
        for path in [
            POTS.to_owned(),
            ALL_POTS.to_owned(),
            format!("{POTS}?resourceVersion=0"),
            format!("{POTS}?resourceVersion={}", revision(&before)),
            format!("{POTS}?fieldSelector=spec.dish%3Dsoup"),
        ] {
            assert_eq!(names(&skips.get(&path).await), ["b", "c"], "{round} {path}");
            plain.get(&path).await.refused(500, "StorageReadError");
        }
        let first = skips.get(&format!("{POTS}?limit=1")).await;
        assert_eq!(names(&first), ["b"], "{round}");
        let next = first.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
        assert_eq!(names(&skips.get(&format!("{POTS}?limit=1&continue={next}")).await), ["c"], "{round}");
        skips.get(&format!("{POTS}/a")).await.refused(500, "InternalError");
        skips.get(&format!("{POTS}/a?resourceVersion=0")).await.refused(500, "StorageReadError");
        if round == "running" {
            // The state before, which the store still has and the cache has forgotten.
            let exact = format!("{POTS}?resourceVersionMatch=Exact&resourceVersion={}", revision(&before));
            assert_eq!(names(&skips.get(&exact).await), ["a", "b", "c"]);
            kitchen.close().await;
            kitchen = Kitchen::with(kitchen.setup_again()).await;
        }
    }
}

#[tokio::test]
async fn a_page_from_the_store_leaves_an_unreadable_object_out_for_those_who_skip_it() {
    let kitchen = Kitchen::open().await;
    let skips = kitchen.client().skipping_unreadable();
    make_pots(&skips, &["0", "a", "b"]).await;
    let at = revision(&skips.get(&format!("{POTS}/b")).await.expect(200));
    garble(&kitchen, KEY).await;
    let lost = revision_of_a(&kitchen).await;
    garble(&kitchen, "/registry/kitchen.dev/pots/n/b").await;
    eventually("the cache has forgotten it", || async { names(&skips.get(POTS).await) == ["0"] }).await;
    let exact = |revision: i64| format!("{POTS}?resourceVersionMatch=Exact&resourceVersion={revision}");
    assert_eq!(names(&skips.get(&exact(at)).await), ["0", "a", "b"]);
    assert_eq!(names(&skips.get(&exact(lost)).await), ["0", "b"]);
    kitchen.client().get(&exact(lost)).await.refused(500, "InternalError");
}

/// The revision of the pot in the store.
async fn revision_of_a(kitchen: &Kitchen) -> i64 {
    kitchen.store.get(KEY).await.expect("the store answers").found.expect("the object").mod_revision
}

#[tokio::test]
async fn a_watch_that_skips_unreadable_objects_reports_none_as_deleted_and_sees_it_come_back() {
    let kitchen = Kitchen::open().await;
    let (client, skips) = (kitchen.client(), kitchen.client().skipping_unreadable());
    make_pots(&client, &["a", "b"]).await;
    let readable = kitchen.store.get(KEY).await.expect("the store answers").found.expect("the pot").value;
    let mut before = skips.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(before.event().await.1, "a");
    let (_, second, at) = before.event().await;
    assert_eq!(second, "b");

    garble(&kitchen, KEY).await;
    assert_eq!(before.next().await, None, "the end, and no deletion");
    let resumed = format!("{POTS}?watch=true&resourceVersion={at}");
    let event = skips.watch(&resumed).await.next().await.expect("an event");
    assert_eq!(event["object"]["reason"], "Expired", "it lists again: {event}");
    let list = skips.get(POTS).await;
    assert_eq!(names(&list), ["b"]);
    let listed = revision(&list.json());
    let mut watches = Vec::new();
    for path in [
        format!("{POTS}?watch=true&resourceVersion={listed}"),
        format!("{ALL_POTS}?watch=true&resourceVersion={listed}&fieldSelector=spec.dish%3Dsoup"),
    ] {
        watches.push(skips.watch(&path).await);
        client.get(&path).await.refused(500, "StorageReadError");
    }
    let mut present = skips.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(present.event().await.1, "b", "a watch that begins leaves it out");
    watches.push(present);
    client.merge(&format!("{POTS}/b"), &json!({"spec": {"servings": 7}})).await.expect(200);
    for watch in &mut watches {
        let (kind, name, _) = watch.event().await;
        assert_eq!((kind.as_str(), name.as_str()), ("MODIFIED", "b"), "the others go on");
    }

    write(&kitchen, Operation::Put(KEY.to_owned(), readable)).await;
    let back = revision_of_a(&kitchen).await;
    for watch in &mut watches {
        assert_eq!(watch.event().await, ("ADDED".to_owned(), "a".to_owned(), back));
    }
    eventually("all see it again", || async { client.get(POTS).await.code == 200 }).await;

    garble(&kitchen, KEY).await;
    for watch in &mut watches {
        assert_eq!(watch.next().await, None);
    }
    let mut again = skips.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(again.event().await.1, "b");
    write(&kitchen, Operation::Delete(KEY.to_owned())).await;
    make_pots(&client, &["c"]).await;
    assert_eq!(again.event().await.1, "c", "nobody saw what was removed");
}

#[tokio::test]
async fn a_kind_can_show_a_stand_in_to_those_who_skip_what_cannot_be_read_and_to_no_others() {
    let mut kitchen = Kitchen::open().await;
    let key = "/registry/kitchen.dev/stoves/gas";
    let stove = json!({"apiVersion": "kitchen.dev/v1", "kind": "Stove", "metadata": {"name": "gas"}});
    kitchen.client().post(STOVES, &stove).await.expect(201);
    let mut watch = kitchen.client().skipping_unreadable().watch(&format!("{STOVES}?watch=true")).await;
    assert_eq!(watch.event().await.0, "ADDED");
    garble(&kitchen, key).await;
    assert_eq!(watch.next().await, None);
    for round in ["running", "started"] {
        let (plain, skips) = (kitchen.client(), kitchen.client().skipping_unreadable());
        let list = skips.get(STOVES).await.expect(200);
        assert_eq!(list["items"][0]["metadata"]["labels"]["hot"], "perhaps", "{round} {list}");
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{round}");
        plain.get(STOVES).await.refused(500, "StorageReadError");
        for client in [plain, skips] {
            client.get(&format!("{STOVES}/gas")).await.refused(500, "InternalError");
        }
        if round == "running" {
            kitchen.close().await;
            kitchen = Kitchen::with(kitchen.setup_again()).await;
        }
    }
    let mut watch = kitchen.client().skipping_unreadable().watch(&format!("{STOVES}?watch=true")).await;
    assert_eq!(watch.event().await.0, "ADDED");
    write(&kitchen, Operation::Delete(key.to_owned())).await;
    assert_eq!(watch.event().await.0, "DELETED");
}

#[tokio::test]
async fn a_collection_with_an_object_that_cannot_be_read_is_not_deleted_in_part() {
    let kitchen = Kitchen::open().await;
    let skips = kitchen.client().skipping_unreadable();
    make_pots(&skips, &["a", "b"]).await;
    garble(&kitchen, KEY).await;
    skips.delete(POTS).await.refused(500, "StorageReadError");
    assert_eq!(names(&skips.get(POTS).await), ["b"]);
}

#[tokio::test]
async fn a_claim_of_an_object_that_cannot_be_read_holds_until_that_object_is_deleted() {
    let kitchen = Kitchen::open().await;
    let (client, on_stove) = (kitchen.client(), json!({"dish": "soup", "stove": "1"}));
    client.create_pot("a", on_stove.clone()).await;
    garble(&kitchen, KEY).await;
    for query in ["", "?dryRun=All"] {
        let taken = client.post(&format!("{POTS}{query}"), &pot("b", on_stove.clone())).await;
        let status = taken.refused(409, "AlreadyExists");
        assert_eq!(status["message"], "stove 1 is taken by a, which cannot be read", "{query:?}");
    }
    let query = format!("{POTS}/a?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    kitchen.client_of("chef").delete(&query).await.expect(200);
    client.create_pot("b", on_stove).await;
}

#[tokio::test]
async fn objects_that_cannot_be_read_are_counted_and_do_not_make_the_server_unready() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    make_pots(&client, &["a", "b"]).await;
    let metric = "apiserver_storage_unreadable_objects{group=\"kitchen.dev\",resource=\"pots\"}";
    let reports = async |count: usize, line: String| {
        let (metrics, ready) = (client.get("/metrics").await.text(), client.get("/readyz?verbose").await);
        metrics.contains(&format!("{metric} {count}\n")) && ready.code == 200 && ready.text().contains(&line)
    };
    let line = |note: &str| format!("[+]unreadable-objects ok{note}\n");
    assert!(reports(0, line("")).await);
    garble(&kitchen, KEY).await;
    let note = line(": 1 of pots.kitchen.dev cannot be read");
    eventually("it is counted, and not named", || reports(1, note.clone())).await;
    assert_eq!(client.get("/readyz").await.text(), "ok");
    write(&kitchen, Operation::Delete(KEY.to_owned())).await;
    eventually("it is gone", || reports(0, line(""))).await;
}
