use std::{sync::Arc, time::Instant};

use futures::future::join_all;
use machinery_storage::{EmbeddedOptions, EmbeddedStore};
use serde_json::json;

use crate::support::{Kitchen, Setup, eventually, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

#[tokio::test]
async fn the_server_reports_an_outage_of_the_store_and_survives_it() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let before = client.create_pot("a", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(watch.event().await.1, "a");

    kitchen.store.set_down(true);
    let answers = [
        client.get(A).await,
        client.post(POTS, &pot("b", json!({"dish": "soup"}))).await,
        client.merge(A, &json!({"spec": {"servings": 9}})).await,
        client.delete(A).await,
        client.get(POTS).await,
    ];
    for answer in answers {
        let status = answer.refused(503, "ServiceUnavailable");
        assert_eq!(answer.header("retry-after"), "1");
        assert!(
            !status["message"].as_str().expect("text").contains("it is down"),
            "no inner details: {status}"
        );
    }
    // What is at hand is still served.
    assert_eq!(client.get(&format!("{A}?resourceVersion=0")).await.expect(200), before);
    assert_eq!(client.get(&format!("{POTS}?resourceVersion=0")).await.expect(200)["items"], json!([before]));
    eventually("the server is not ready", || async { client.get("/readyz").await.code == 500 }).await;
    assert_eq!(client.get("/readyz/storage").await.code, 500);
    assert_eq!(client.get("/livez").await.code, 200);

    kitchen.store.set_down(false);
    eventually("the server is ready again", || async { client.get("/readyz").await.code == 200 }).await;
    assert_eq!(client.get(A).await.expect(200), before, "nothing was lost");
    client.create_pot("b", json!({"dish": "soup"})).await;
    assert_eq!(watch.event().await.1, "b", "the watch goes on");
}

#[tokio::test]
async fn a_server_whose_store_went_back_is_not_ready_until_it_has_read_everything_again() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("ghost", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(watch.event().await.1, "ghost");
    let folder = tempfile::tempdir().expect("a folder");
    let options = EmbeddedOptions::new(folder.path().join("restored"));
    let restored = EmbeddedStore::open(options).await.expect("a store");

    kitchen.store.set_down(true);
    let cache = "/readyz/watch-cache-pots";
    assert_eq!(client.get(cache).await.code, 200, "an outage alone leaves the cache as it is");
    kitchen.store.go_back_to(Arc::new(restored));
    assert_eq!(client.get(cache).await.code, 500);
    client.get(&format!("{POTS}?resourceVersion=0")).await.refused(429, "TooManyRequests");
    let end = watch.next().await.expect("an event");
    assert_eq!((&end["type"], &end["object"]["reason"]), (&json!("ERROR"), &json!("Expired")), "{end}");

    kitchen.store.set_down(false);
    eventually("the server is ready again", || async { client.get("/readyz").await.code == 200 }).await;
    let list = client.get(&format!("{POTS}?resourceVersion=0")).await.expect(200);
    assert_eq!(list["items"], json!([]));
    client.get(&format!("{POTS}/ghost")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn the_server_starts_before_its_store_and_is_ready_after_it() {
    let kitchen = Kitchen::with(Setup { down: true, ..Setup::default() }).await;
    let client = kitchen.client();
    let checks = ["/readyz/watch-cache-pots", "/readyz/watch-cache-stoves", "/readyz/storage"];
    for check in checks {
        assert_eq!(client.get(check).await.code, 500, "{check}");
    }
    client.get(POTS).await.refused(503, "ServiceUnavailable");
    // The store is not asked for what the cache has: it has nothing yet.
    for path in [format!("{POTS}?resourceVersion=0"), format!("{A}?resourceVersion=0")] {
        let answer = client.get(&path).await;
        let status = answer.refused(429, "TooManyRequests");
        assert_eq!(status["message"], "storage is (re)initializing");
        assert_eq!(answer.header("retry-after"), "1");
    }
    client.get(&format!("{POTS}?watch=true&resourceVersion=0")).await.refused(429, "TooManyRequests");
    client.get("/readyz/none").await.refused(404, "NotFound");

    kitchen.store.set_down(false);
    eventually("the server is ready", || async { client.get("/readyz").await.code == 200 }).await;
    for check in checks {
        assert_eq!(client.get(check).await.code, 200, "{check}");
    }
    client.create_pot("a", json!({"dish": "soup"})).await;
}

#[tokio::test]
async fn a_server_whose_watch_of_the_store_never_starts_is_not_ready() {
    let kitchen = Kitchen::with(Setup { unwatchable: true, ..Setup::default() }).await;
    let client = kitchen.client();
    eventually("the cache is filled", || async {
        client.get(&format!("{POTS}?resourceVersion=0")).await.code == 200
    })
    .await;
    assert_eq!(client.get("/readyz/watch-cache-pots").await.code, 500);
    assert_eq!(client.get("/readyz").await.code, 500);
}

#[tokio::test]
async fn a_server_whose_watch_of_the_namespaces_has_not_started_is_not_ready() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    kitchen.namespaces.set_started(false);
    assert_eq!(client.get("/readyz/watch-namespaces").await.code, 500);
    assert_eq!(client.get("/readyz").await.code, 500);
    kitchen.namespaces.set_started(true);
    assert_eq!(client.get("/readyz").await.code, 200);
}

#[tokio::test]
async fn however_many_ask_whether_the_server_is_ready_the_store_is_asked_once_a_second() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let (before, started) = (kitchen.store.probed(), Instant::now());
    let probes = ["/readyz", "/healthz", "/readyz/storage"];
    let answers = join_all(probes.iter().cycle().take(150).map(|probe| client.get(probe))).await;
    assert!(answers.iter().all(|answer| answer.code == 200));
    let kinds = 2;
    let most = kinds * (usize::try_from(started.elapsed().as_secs()).expect("small") + 2);
    let asked = kitchen.store.probed() - before;
    assert!(asked <= most, "{asked} times, at most {most}");
}

#[tokio::test]
async fn every_reply_has_the_time_of_the_last_write_to_the_store() {
    let kitchen = Kitchen::with(Setup { write_probe: true, ..Setup::default() }).await;
    let lag = || async {
        let reply = kitchen.client().get("/apis/no.such/v1/things").await;
        let time = |name| chrono::DateTime::parse_from_rfc3339(reply.header(name)).ok();
        Some(time("server-time")? - time("store-written")?)
    };
    eventually("a write succeeded", || async { lag().await.is_some_and(|lag| lag.num_seconds() < 2) }).await;
    let before = chrono::Utc::now();
    kitchen.store.set_down(true);
    eventually("the writes fail", || async { lag().await.is_some_and(|lag| lag.num_seconds() > 5) }).await;
    kitchen.store.set_down(false);
    eventually("writes succeed again", || async { lag().await.is_some_and(|lag| lag.num_seconds() < 2) })
        .await;
    let reply = kitchen.client().get("/apis/no.such/v1/things").await;
    let recovered = chrono::DateTime::parse_from_rfc3339(reply.header("store-recovered")).expect("a time");
    assert!(recovered > before, "rule 9: it recovered at the first write, {recovered}");
}
