use std::{collections::BTreeSet, io::Write, time::Duration};

use futures::{StreamExt, future::join_all};
use kube::{
    Api, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use machinery_server::ServerOptions;
use serde_json::{Value, json};

use crate::support::{Client, Kitchen, Pot, Setup, eventually, pot, revision, summary};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";

fn event(event_type: &str, name: &str, version: i64) -> (String, String, i64) {
    (event_type.to_owned(), name.to_owned(), version)
}

#[tokio::test]
async fn a_watch_from_a_revision_reports_every_change_after_it_in_order() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let a = client.create_pot("a", json!({"dish": "soup"})).await;
    let b = client.create_pot("b", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true&resourceVersion={}", revision(&a))).await;
    assert_eq!(watch.event().await, event("ADDED", "b", revision(&b)), "from before the watch");
    let changed = client.merge(&format!("{POTS}/a"), &json!({"spec": {"servings": 3}})).await.expect(200);
    let line = watch.next().await.expect("an event");
    assert_eq!(line, json!({"type": "MODIFIED", "object": changed}));
    client.delete(&format!("{POTS}/a")).await.expect(200);
    let (event_type, name, version) = watch.event().await;
    assert_eq!((event_type.as_str(), name.as_str()), ("DELETED", "a"));
    assert!(version > revision(&changed), "the deletion has a revision of its own");
}

#[tokio::test]
async fn a_watch_without_a_revision_starts_with_what_is_there() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let a = client.create_pot("a", json!({"dish": "soup"})).await;
    for query in ["watch=true", "watch=true&resourceVersion=0"] {
        let mut watch = client.watch(&format!("{POTS}?{query}")).await;
        assert_eq!(watch.event().await, event("ADDED", "a", revision(&a)), "{query}");
    }
    let now = "watch=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=false";
    let mut watch = client.watch(&format!("{POTS}?{now}")).await;
    let b = client.create_pot("b", json!({"dish": "soup"})).await;
    assert_eq!(watch.event().await, event("ADDED", "b", revision(&b)), "without what was there");
}

#[tokio::test]
async fn a_watch_list_says_where_the_initial_events_end() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for at in 0..600 {
        client.create_pot(&format!("p{at:03}"), json!({"dish": "soup"})).await;
    }
    let query =
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = client.watch(&format!("{POTS}?{query}")).await;
    let mut names = Vec::new();
    let end = loop {
        let event = watch.next().await.expect("an event");
        if event["type"] == "BOOKMARK" {
            break event;
        }
        assert_eq!(event["type"], "ADDED");
        names.push(event["object"]["metadata"]["name"].as_str().expect("a name").to_owned());
    };
    assert_eq!(names, (0..600).map(|at| format!("p{at:03}")).collect::<Vec<_>>());
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let created = client.create_pot("q", json!({"dish": "soup"})).await;
    assert_eq!(watch.event().await, event("ADDED", "q", revision(&created)));
}

/// Reads a watch-list up to the bookmark, then an event, of a client that accepts gzip. Returns the size that
/// was sent up to the bookmark.
async fn read_compressed(kitchen: &Kitchen, path: &str) -> usize {
    let accept = [("accept-encoding", "gzip"), ("x-user", "cook")];
    let mut request = reqwest::Client::new().get(format!("{}{path}", kitchen.url()));
    for (name, value) in accept {
        request = request.header(name, value);
    }
    let response = request.send().await.expect("an answer");
    assert_eq!(response.headers().get("content-encoding").expect("compressed"), "gzip");
    let (mut stream, mut decoder) = (response.bytes_stream(), flate2::write::GzDecoder::new(Vec::new()));
    let mut read_up_to = async |mark: &str| {
        let mut sent = 0;
        while !decoder.get_ref().windows(mark.len()).any(|window| window == mark.as_bytes()) {
            let chunk = tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("in time");
            let chunk = chunk.expect("more").expect("a chunk");
            sent += chunk.len();
            decoder.write_all(&chunk).expect("gzip");
            decoder.flush().expect("gzip");
        }
        sent
    };
    let sent = read_up_to("k8s.io/initial-events-end").await;
    kitchen.client().create_pot("later", json!({"dish": "soup"})).await;
    read_up_to("later").await;
    while let Some(chunk) = stream.next().await {
        decoder.write_all(&chunk.expect("a chunk")).expect("gzip");
    }
    assert!(decoder.finish().expect("the right checksum").ends_with(b"}\n"));
    sent
}

#[tokio::test]
async fn a_watch_list_is_compressed_for_clients_that_accept_it_and_each_event_is_sent_at_once() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    for at in 0..200 {
        client.create_pot(&format!("p{at:03}"), json!({"dish": "soup"})).await;
    }
    let watch = "watch=true&timeoutSeconds=5&allowWatchBookmarks=true";
    let list = format!("{POTS}?{watch}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let plain = client.get(POTS).await.body.len();
    let sent = read_compressed(&kitchen, &list).await;
    assert!(sent * 5 < plain, "{sent} of {plain} bytes");
    let plain =
        client.send("GET", &format!("{POTS}?{watch}"), &[("accept-encoding", "gzip")], "".into()).await;
    assert_eq!(plain.header("content-encoding"), "", "as upstream: only a watch-list is compressed");
}

#[tokio::test]
async fn a_watch_that_starts_with_the_state_marks_its_end_for_those_who_understand_bookmarks() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    for query in ["", "&resourceVersion=0"] {
        let mut watch = client.watch(&format!("{POTS}?watch=true&allowWatchBookmarks=true{query}")).await;
        assert_eq!(watch.next().await.expect("an event")["type"], "ADDED", "{query}");
        let end = watch.next().await.expect("a bookmark");
        assert_eq!(end["type"], "BOOKMARK", "{query}");
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{query}");
    }
}

#[tokio::test]
async fn entering_and_leaving_a_selector_are_additions_and_deletions() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let path = format!("{POTS}?watch=true&labelSelector=hot%3Dyes&fieldSelector=spec.dish%3Dsoup");
    let mut watch = client.watch(&path).await;
    client.create_pot("b", json!({"dish": "stew"})).await;
    client.create_pot("a", json!({"dish": "soup"})).await;
    let a = format!("{POTS}/a");
    let hot = client.merge(&a, &json!({"metadata": {"labels": {"hot": "yes"}}})).await.expect(200);
    let more = client.merge(&a, &json!({"spec": {"servings": 3}})).await.expect(200);
    let cold = client.merge(&a, &json!({"metadata": {"labels": {"hot": "no"}}})).await.expect(200);
    client.merge(&format!("{POTS}/b"), &json!({"metadata": {"labels": {"hot": "yes"}}})).await.expect(200);
    let again = client.merge(&a, &json!({"metadata": {"labels": {"hot": "yes"}}})).await.expect(200);
    let stew = client.merge(&a, &json!({"spec": {"dish": "stew"}})).await.expect(200);
    let soup = client.merge(&a, &json!({"spec": {"dish": "soup"}})).await.expect(200);
    let expected = [
        ("ADDED", &hot),
        ("MODIFIED", &more),
        ("DELETED", &cold),
        ("ADDED", &again),
        ("DELETED", &stew),
        ("ADDED", &soup),
    ];
    for (event_type, object) in expected {
        assert_eq!(watch.event().await, event(event_type, "a", revision(object)));
    }
}

#[tokio::test]
async fn a_watch_sees_its_namespace_or_its_object_only() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let mut all = client.watch("/apis/kitchen.dev/v1/pots?watch=true").await;
    let mut one = client.watch(&format!("{POTS}?watch=true&fieldSelector=metadata.name%3Db")).await;
    let other = "/apis/kitchen.dev/v1/namespaces/m/pots";
    client.post(other, &pot("b", json!({"dish": "soup"}))).await.expect(201);
    client.create_pot("a", json!({"dish": "soup"})).await;
    let b = client.create_pot("b", json!({"dish": "soup"})).await;
    assert_eq!(one.event().await, event("ADDED", "b", revision(&b)));
    for name in ["b", "a", "b"] {
        assert_eq!(all.event().await.1, name);
    }
}

#[tokio::test]
async fn a_watch_ends_at_its_time_with_a_bookmark_to_resume_at() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let a = client.create_pot("a", json!({"dish": "soup"})).await;
    let path = format!(
        "{POTS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={}",
        revision(&a)
    );
    let mut watch = client.watch(&path).await;
    // A write of another kind moves the store on, and the bookmark with it.
    let stove =
        client.post("/apis/kitchen.dev/v1/stoves", &json!({"metadata": {"name": "s"}})).await.expect(201);
    client.get(POTS).await.expect(200);
    let last = watch.next().await.expect("a bookmark");
    assert_eq!(last["type"], "BOOKMARK");
    assert_eq!(last["object"]["kind"], "Pot");
    assert!(summary(&last).2 >= revision(&stove), "{last}");
    assert_eq!(watch.next().await, None, "the end");
    let b = client.create_pot("b", json!({"dish": "soup"})).await;
    let resume = format!("{POTS}?watch=true&resourceVersion={}", summary(&last).2);
    let mut resumed = client.watch(&resume).await;
    assert_eq!(resumed.event().await, event("ADDED", "b", revision(&b)), "nothing is lost between");

    let mut plain =
        client.watch(&format!("{POTS}?watch=true&timeoutSeconds=1&resourceVersion={}", revision(&b))).await;
    assert_eq!(plain.next().await, None, "no bookmark for those who do not understand them");
}

/// The one event of a watch that could not start: its status.
async fn error_of(client: &Client, path: &str) -> Value {
    let mut watch = client.watch(path).await;
    let event = watch.next().await.expect("an event");
    assert_eq!(event["type"], "ERROR", "{event}");
    assert_eq!(watch.next().await, None, "nothing follows");
    event["object"].clone()
}

#[tokio::test]
async fn a_compacted_revision_is_reported_by_an_event_and_not_by_the_status_code() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let first = client.create_pot("a", json!({"dish": "soup"})).await;
    let newest = client.create_pot("b", json!({"dish": "soup"})).await;
    kitchen.store.compact_before(revision(&newest) + 1);
    client.create_pot("c", json!({"dish": "soup"})).await;
    let path = format!("{POTS}?watch=true&timeoutSeconds=1&resourceVersion={}", revision(&first));
    eventually("the cache is filled again", || async {
        let event = client.watch(&path).await.next().await;
        event.is_some_and(|event| event["type"] == "ERROR")
    })
    .await;
    let status = error_of(&client, &path).await;
    assert_eq!(
        (&status["kind"], &status["code"], &status["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    let mut watch = client.watch(&format!("{POTS}?watch=true")).await;
    let names: BTreeSet<String> =
        [watch.event().await.1, watch.event().await.1, watch.event().await.1].into();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_revision_that_the_store_has_not_reached_is_expired_and_one_that_the_cache_has_not_is_asked_again()
{
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let turned_back = error_of(&client, &format!("{POTS}?watch=true&resourceVersion=999999")).await;
    assert_eq!((&turned_back["code"], &turned_back["reason"]), (&json!(410), &json!("Expired")));

    kitchen.store.hold_watches(true);
    let unseen = client.create_pot("a", json!({"dish": "soup"})).await;
    let path = format!("{POTS}?watch=true&resourceVersion={}", revision(&unseen));
    let behind = error_of(&client, &path).await;
    assert_eq!((&behind["code"], &behind["reason"]), (&json!(504), &json!("Timeout")));
    assert_eq!(behind["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    kitchen.store.hold_watches(false);
}

#[tokio::test]
async fn an_informer_lists_again_after_a_restart_that_lost_its_revision() {
    let mut kitchen = Kitchen::open().await;
    let again = kitchen.setup_again();
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let pots: Api<Pot> = Api::namespaced(kitchen.kube_client(), "n");
    let mut events = Box::pin(watcher(pots, watcher::Config::default()).default_backoff());
    let mut seen = async |wanted: &str| {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let event = tokio::time::timeout_at(deadline, events.next()).await;
            match event.unwrap_or_else(|_| panic!("{wanted} is never seen")) {
                Some(Ok(Event::InitApply(pot) | Event::Apply(pot))) if pot.name_any() == wanted => return,
                // While nobody listens, and when the revision is forgotten.
                Some(_) => {}
                None => panic!("the informer ended"),
            }
        }
    };
    seen("a").await;
    kitchen.close().await;
    // Other writes go on, so that the history starts after what the informer has seen.
    let mut elsewhere = Kitchen::with(Setup { port: 0, ..again.clone() }).await;
    elsewhere.client().create_pot("b", json!({"dish": "soup"})).await;
    elsewhere.close().await;
    let _kitchen = Kitchen::with(again).await;
    seen("b").await;
}

#[tokio::test]
async fn a_watch_for_longer_than_clocks_can_count_is_served() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true&timeoutSeconds={}", i64::MAX)).await;
    assert_eq!(watch.event().await.1, "a");
}

#[tokio::test]
async fn a_hundred_watches_see_every_change_once_while_the_stores_watch_breaks() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let start = client.get(POTS).await.expect(200);
    let path = format!("{POTS}?watch=true&resourceVersion={}", revision(&start));
    let watches = join_all((0..100).map(|_| client.watch(&path))).await;
    let mut expected = Vec::new();
    for at in 0..60 {
        if at % 10 == 5 {
            kitchen.store.break_watches();
        }
        let created = client.create_pot(&format!("p{at}"), json!({"dish": "soup"})).await;
        expected.push(event("ADDED", &format!("p{at}"), revision(&created)));
    }
    let seen = join_all(watches.into_iter().map(|mut watch| async move {
        let mut seen = Vec::new();
        for _ in 0..60 {
            seen.push(watch.event().await);
        }
        seen
    }))
    .await;
    for seen in seen {
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn more_watches_than_a_caller_may_have_are_refused_until_one_ends() {
    let options = ServerOptions { max_watches_of_one: 2, ..ServerOptions::default() };
    let kitchen = Kitchen::with(Setup { options, ..Setup::default() }).await;
    let (client, path) = (kitchen.client(), format!("{POTS}?watch=true"));
    let one = client.watch(&path).await;
    let _other = client.watch(&path).await;
    let refused = client.get(&path).await;
    refused.refused(429, "TooManyRequests");
    assert_eq!(refused.header("retry-after"), "5");
    kitchen.client_of("baker").watch(&path).await;
    drop(one);
    eventually("the place is free", || async {
        client.get(&format!("{path}&timeoutSeconds=1")).await.code == 200
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let watching = |metrics: String| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with("apiserver_longrunning_requests{"))
            .map(str::to_owned);
        line.and_then(|line| line.rsplit(' ').next().map(str::to_owned)).unwrap_or_default()
    };
    let watch = client.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(watching(client.get("/metrics").await.text()), "1");
    drop(watch);
    eventually("the watch is gone", || async { watching(client.get("/metrics").await.text()) == "0" }).await;
}
