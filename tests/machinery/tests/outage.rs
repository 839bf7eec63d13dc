//! Outages of etcd, TLS and key prefixes.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "contract/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use controlplane::{Etcd, eventually};
use fixture::{Tested, all, commit, next_of, put, revision, show, shown, stories, take};
use machinery_storage::{
    EtcdOptions, EtcdOptionsError, EtcdStore, EtcdTls, Operation, Outcome, Precondition, Store, StoreError,
    Transaction, WatchEvent,
};

/// The longest that a call may take: its timeout of 5 s, and patience with a busy machine.
const BOUND: Duration = Duration::from_secs(12);

async fn connect(options: EtcdOptions) -> Tested {
    Arc::new(EtcdStore::connect(options).await.unwrap())
}

fn is_unavailable<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable { .. }))
}

fn write(key: &str, value: &str) -> Transaction {
    Transaction { preconditions: Vec::new(), operations: vec![put(key, value)] }
}

/// Makes every call, and checks that each fails as unavailable in time.
async fn every_call_is_unavailable(store: &Tested) {
    let started = Instant::now();
    let (get, list, commit, watch, ready, compact) = tokio::join!(
        store.get("/a/x"),
        async { store.list(&all("/a/")).await },
        store.commit(write("/a/x", "away")),
        store.watch("/a/", 0),
        store.ready(),
        store.compact(2),
    );
    assert!(is_unavailable(&get), "{get:?}");
    assert!(is_unavailable(&list), "{list:?}");
    assert!(is_unavailable(&commit), "{commit:?}");
    assert!(is_unavailable(&watch.map(|_| ())), "a watch was opened");
    assert!(is_unavailable(&ready), "{ready:?}");
    assert!(is_unavailable(&compact), "{compact:?}");
    assert!(started.elapsed() < BOUND, "it took {:?}", started.elapsed());
}

async fn answers_again(store: &Tested) {
    eventually(Duration::from_secs(15), "the store answers", || store.ready()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_in_time_while_etcd_is_down_and_work_again_after() {
    let etcd = Etcd::start().await.unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    commit(&store, [put("/a/x", "1")]).await;
    etcd.stop().unwrap();
    every_call_is_unavailable(&store).await;
    every_call_is_unavailable(&store).await;
    etcd.start_again().await.unwrap();
    answers_again(&store).await;
    assert_eq!(show(&store.get("/a/x").await.unwrap().found.unwrap()), "/a/x=1");
    commit(&store, [put("/a/x", "2")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_in_time_while_etcd_is_frozen_and_work_again_after() {
    let etcd = Etcd::start().await.unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    commit(&store, [put("/a/x", "1")]).await;
    etcd.pause().unwrap();
    every_call_is_unavailable(&store).await;
    etcd.resume().unwrap();
    answers_again(&store).await;
    assert!(store.get("/a/x").await.unwrap().found.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_can_be_made_before_etcd_is_there() {
    let etcd = Etcd::start().await.unwrap();
    etcd.stop().unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    every_call_is_unavailable(&store).await;
    etcd.start_again().await.unwrap();
    answers_again(&store).await;
    commit(&store, [put("/a/x", "1")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_an_error_when_etcd_goes_and_is_resumed_with_nothing_lost() {
    let etcd = Etcd::start().await.unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    let start = revision(&store).await;
    let mut watch = store.watch("/a/", start).await.unwrap();
    commit(&store, [put("/a/x", "1"), put("/a/y", "1")]).await;
    let seen = take(&mut watch, 2).await;
    let at = seen.last().unwrap().revision();
    commit(&store, [put("/a/x", "2")]).await;
    etcd.stop().unwrap();
    let end = loop {
        match next_of(&mut watch).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(end, StoreError::Unavailable { .. }), "{end:?}");
    assert!(futures::StreamExt::next(&mut watch).await.is_none(), "a watch ends with its error");
    etcd.start_again().await.unwrap();
    answers_again(&store).await;
    commit(&store, [put("/a/x", "3")]).await;
    let mut watch = store.watch("/a/", at).await.unwrap();
    assert_eq!(stories(&take(&mut watch, 2).await), ["/a/x: 1 -> 2", "/a/x: 2 -> 3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_watch_notices_that_etcd_hangs() {
    let etcd = Etcd::start().await.unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    let mut watch = store.watch("/a/", revision(&store).await).await.unwrap();
    etcd.pause().unwrap();
    let noticed = tokio::time::timeout(Duration::from_secs(15), next_of(&mut watch));
    let end = noticed.await.expect("the connection's keep-alive notices").unwrap_err();
    assert!(matches!(end, StoreError::Unavailable { .. }), "{end:?}");
    etcd.resume().unwrap();
    answers_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_survive_an_outage_with_one_winner_for_each_claim() {
    let etcd = Etcd::start().await.unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut won = Vec::new();
                let mut unsure = Vec::new();
                for claim in 0..200 {
                    let key = format!("/claims/{claim:03}");
                    let transaction = Transaction {
                        preconditions: vec![Precondition::Absent(key.clone())],
                        operations: vec![put(&key, &writer.to_string())],
                    };
                    match store.commit(transaction).await {
                        Ok(Outcome::Committed(_)) => won.push(claim),
                        Ok(Outcome::Failed(_)) => {}
                        Err(StoreError::Unavailable { .. }) => {
                            unsure.push(claim);
                            // An API's clients would back off, too.
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
                (writer, won, unsure)
            })
        })
        .collect();
    eventually(Duration::from_secs(10), "some claims are taken", || async {
        let taken = store.list(&all("/claims/")).await.unwrap().items.len();
        if taken >= 20 { Ok(()) } else { Err(format!("{taken} are taken")) }
    })
    .await
    .unwrap();
    etcd.stop().unwrap();
    etcd.start_again().await.unwrap();
    let mut results = Vec::new();
    for writer in writers {
        results.push(writer.await.unwrap());
    }
    answers_again(&store).await;
    let holders = store.list(&all("/claims/")).await.unwrap().items;
    for claim in 0..200 {
        let holder = holders.iter().find(|item| item.key == format!("/claims/{claim:03}"));
        let won: Vec<_> = results.iter().filter(|(_, won, _)| won.contains(&claim)).collect();
        assert!(won.len() <= 1, "claim {claim} was won by several: {won:?}");
        if let [(writer, ..)] = won[..] {
            assert_eq!(holder.map(show), Some(format!("/claims/{claim:03}={writer}")), "it was lost");
        } else if let Some(holder) = holder {
            let text = String::from_utf8_lossy(&holder.value).into_owned();
            let unsure = results
                .iter()
                .any(|(writer, _, unsure)| text == writer.to_string() && unsure.contains(&claim));
            assert!(unsure, "claim {claim} is held by one who was told that it failed");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_down_fails_no_call() {
    let etcd = Etcd::start().await.unwrap();
    let gone = format!("http://127.0.0.1:{}", controlplane::free_port().unwrap());
    let store = connect(EtcdOptions::new([gone, etcd.endpoint().to_owned()])).await;
    for number in 0..200 {
        commit(&store, [put("/a/x", &number.to_string())]).await;
        assert!(store.get("/a/x").await.unwrap().found.is_some());
        drop(store.watch("/a/", 0).await.unwrap());
    }
    store.ready().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_hangs_fails_no_read_and_few_writes() {
    let (hanging, etcd) = (Etcd::start().await.unwrap(), Etcd::start().await.unwrap());
    hanging.pause().unwrap();
    let store = connect(EtcdOptions {
        request_timeout: Duration::from_secs(3),
        ..EtcdOptions::new([hanging.endpoint(), etcd.endpoint()])
    })
    .await;
    let started = Instant::now();
    let mut failed = 0;
    for number in 0..100 {
        store.get("/a/x").await.unwrap();
        drop(store.watch("/a/", 0).await.unwrap());
        failed += u32::from(store.commit(write("/a/x", &number.to_string())).await.is_err());
    }
    assert!(failed <= 4, "{failed} writes of 100 failed");
    assert!(started.elapsed() < Duration::from_secs(25), "it took {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_with_tls_is_reached_with_its_authority_and_a_client_certificate() {
    let etcd = Etcd::start_with_tls().await.unwrap();
    let files = etcd.tls().unwrap();
    let read = |path: &std::path::Path| std::fs::read(path).unwrap();
    let identity = Some((read(&files.client.certificate), read(&files.client.key)));
    let tls = EtcdTls { ca: read(&files.ca), identity };
    let connect = async |tls| {
        let options = EtcdOptions { tls: Some(tls), ..EtcdOptions::new([etcd.endpoint()]) };
        Arc::new(EtcdStore::connect(options).await.unwrap())
    };
    let secured = connect(tls.clone()).await;
    let store: Tested = secured.clone();
    let start = commit(&store, [put("/a/x", "1")]).await;
    let mut watch = store.watch("/a/", start).await.unwrap();
    commit(&store, [put("/a/x", "2")]).await;
    assert_eq!(stories(&take(&mut watch, 1).await), ["/a/x: 1 -> 2"]);
    let stranger = controlplane::Pki::new("somebody-else").unwrap();
    let folder = tempfile::tempdir().unwrap();
    stranger.write_ca(&folder.path().join("ca.crt")).unwrap();
    let strangers = EtcdTls { ca: read(&folder.path().join("ca.crt")), ..tls.clone() };
    let anonymous = EtcdTls { identity: None, ..tls.clone() };
    for refused in [strangers, anonymous] {
        let outside = connect(refused).await;
        let result = outside.get("/a/x").await;
        assert!(is_unavailable(&result), "{result:?}");
        outside.renew_tls(tls.clone()).await.unwrap();
        assert!(outside.get("/a/x").await.unwrap().found.is_some());
    }
    // A watch outlives the certificates that it was opened with.
    secured.renew_tls(tls).await.unwrap();
    commit(&store, [put("/a/x", "3")]).await;
    assert_eq!(stories(&take(&mut watch, 1).await), ["/a/x: 2 -> 3"]);
    let unusable =
        EtcdTls { ca: b"no certificate".to_vec(), identity: Some((b"no".to_vec(), b"no".to_vec())) };
    secured.renew_tls(unusable).await.unwrap_err();
    commit(&store, [put("/a/x", "4")]).await;
    assert_eq!(stories(&take(&mut watch, 1).await), ["/a/x: 3 -> 4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_prefixes_keep_stores_on_one_etcd_apart() {
    let etcd = Etcd::start().await.unwrap();
    let store = async |prefix: &str| {
        connect(EtcdOptions { key_prefix: prefix.to_owned(), ..EtcdOptions::new([etcd.endpoint()]) }).await
    };
    let (one, two, whole) = (store("/registry/one").await, store("/registry/two").await, store("").await);
    let start = revision(&one).await;
    let mut watch = one.watch("/a/", start).await.unwrap();
    commit(&two, [put("/a/x", "two")]).await;
    commit(&one, [put("/a/x", "one")]).await;
    assert_eq!(shown(&one.list(&all("/a/")).await.unwrap().items), ["/a/x=one"]);
    assert_eq!(shown(&two.list(&all("/a/")).await.unwrap().items), ["/a/x=two"]);
    assert_eq!(stories(&take(&mut watch, 1).await), ["/a/x: nothing -> one"]);
    let keys = shown(&whole.list(&all("/registry/")).await.unwrap().items);
    assert_eq!(keys, ["/registry/one/a/x=one", "/registry/two/a/x=two"]);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let none = EtcdStore::connect(EtcdOptions::new(Vec::<String>::new())).await;
    assert!(matches!(none, Err(EtcdOptionsError::NoEndpoint)));
    let tls = Some(EtcdTls { ca: Vec::new(), identity: None });
    for (endpoint, tls) in [("http://not a url", None), ("http://127.0.0.1:2379", tls)] {
        let options = EtcdOptions { tls, ..EtcdOptions::new([endpoint]) };
        let result = EtcdStore::connect(options).await;
        assert!(matches!(result, Err(EtcdOptionsError::Endpoint { .. })), "{endpoint}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_up_nobody() {
    let etcd = Etcd::start().await.unwrap();
    let store = connect(EtcdOptions::new([etcd.endpoint()])).await;
    let start = revision(&store).await;
    let lazy = store.watch("/big/", start).await.unwrap();
    let mut eager = store.watch("/small/", start).await.unwrap();
    let value = bytes::Bytes::from(vec![b'x'; 1024 * 1024]);
    for _ in 0..20 {
        let operations = vec![Operation::Put("/big/x".to_owned(), value.clone())];
        store.commit(Transaction { preconditions: Vec::new(), operations }).await.unwrap();
    }
    let written = commit(&store, [put("/small/x", "1")]).await;
    assert_eq!(store.get("/small/x").await.unwrap().revision, written);
    assert_eq!(stories(&take(&mut eager, 1).await), ["/small/x: nothing -> 1"]);
    let mut lazy = lazy;
    let events = take(&mut lazy, 20).await;
    assert!(matches!(events.last(), Some(WatchEvent::Put { .. })));
}
