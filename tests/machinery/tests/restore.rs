//! Stores whose backup is restored, and a server over one.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "contract/fixture.rs"]
#[allow(dead_code)]
mod fixture;
#[path = "../../../machinery/server/tests/http/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the server use the rest")]
mod support;

use std::{path::Path, sync::Arc};

use controlplane::Etcd;
use fixture::{Tested, all, commit, in_folder, on_etcd, put, revision, shown, stories, take, watch_error};
use machinery_storage::{EtcdOptions, EtcdStore, StoreError};
use serde_json::json;
use support::{Kitchen, Setup, eventually, revision as version, summary};

/// Arguments of `etcdutl snapshot restore` by which no revision names two states.
const BUMPED: [&str; 2] = ["--bump-revision=1000000", "--mark-compacted"];

/// Writes, takes a backup with `save`, writes more, and returns the lost revision.
async fn history<E: std::fmt::Debug>(store: &Tested, save: impl Future<Output = Result<(), E>>) -> i64 {
    commit(store, [put("/a/x", "kept")]).await;
    save.await.unwrap();
    for _ in 0..20 {
        commit(store, [put("/a/x", "lost"), put("/a/ghost", "lost")]).await;
    }
    revision(store).await
}

/// Checks the contract of a store whose backup was restored, given a lost revision.
async fn refuses_what_was_lost(store: &Tested, lost: i64) {
    // The first call can be the one that finds out.
    eventually("the store answers", || async { store.get("/a/x").await.is_ok() }).await;
    assert_eq!(shown(&store.list(&all("/a/")).await.unwrap().items), ["/a/x=kept"]);
    let error = watch_error(store, "/a/", lost).await;
    assert!(matches!(error, StoreError::Future { .. } | StoreError::Compacted { .. }), "{error:?}");
}

async fn restored_etcd_refuses_what_was_lost(arguments: &[&str]) {
    let (etcd, folder) = (Etcd::start().await.unwrap(), tempfile::tempdir().unwrap());
    let snapshot = folder.path().join("snapshot");
    let store = on_etcd(&etcd).await;
    let (told, before) = (store.history(), store.history().number());
    let lost = history(&store, etcd.save_snapshot(&snapshot)).await;
    etcd.stop().unwrap();
    etcd.start_again().await.unwrap();
    assert_eq!(revision(&store).await, lost, "an etcd that only stopped goes on");
    assert_eq!(told.number(), before);

    etcd.restore_snapshot(&snapshot, arguments).await.unwrap();
    refuses_what_was_lost(&store, lost).await;
    assert_ne!(told.number(), before, "users of the store are told");
    told.differs_from(before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_was_restored_from_an_older_snapshot_begins_a_new_history() {
    restored_etcd_refuses_what_was_lost(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_was_restored_with_a_bumped_revision_begins_a_new_history() {
    restored_etcd_refuses_what_was_lost(&BUMPED).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_was_restored_under_another_token_begins_a_new_history() {
    // etcd takes the token from its data, so the member starts as before.
    restored_etcd_refuses_what_was_lost(&[
        "--bump-revision=1000000",
        "--mark-compacted",
        "--initial-cluster-token=restored",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_knows_the_lost_writes_by_its_watch_alone_begins_a_new_history() {
    let (etcd, folder) = (Etcd::start().await.unwrap(), tempfile::tempdir().unwrap());
    let snapshot = folder.path().join("snapshot");
    let (writer, watcher) = (on_etcd(&etcd).await, on_etcd(&etcd).await);
    commit(&writer, [put("/a/x", "kept")]).await;
    let (history, after) = (watcher.history().number(), revision(&watcher).await);
    let mut events = watcher.watch("/a/", after).await.unwrap();
    etcd.save_snapshot(&snapshot).await.unwrap();
    commit(&writer, [put("/a/ghost", "lost")]).await;
    assert_eq!(stories(&take(&mut events, 1).await), ["/a/ghost: nothing -> lost"]);
    etcd.restore_snapshot(&snapshot, &[]).await.unwrap();
    eventually("the store answers", || async { watcher.get("/a/x").await.is_ok() }).await;
    assert_ne!(watcher.history().number(), history, "users of the store are told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_whose_older_file_was_copied_back_refuses_what_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (file, backup) = (folder.path().join("store"), folder.path().join("backup"));
    let store = in_folder(folder.path()).await;
    commit(&store, [put("/a/x", "kept")]).await;
    drop(store);
    std::fs::copy(&file, &backup).unwrap();
    let store = in_folder(folder.path()).await;
    let lost = history(&store, async { Ok::<_, ()>(()) }).await;
    drop(store);
    std::fs::copy(&backup, &file).unwrap();
    refuses_what_was_lost(&in_folder(folder.path()).await, lost).await;
}

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";

async fn server_serves_no_ghost(arguments: &[&str]) {
    let (etcd, folder) = (Etcd::start().await.expect("etcd"), tempfile::tempdir().expect("a folder"));
    let snapshot: &Path = &folder.path().join("snapshot");
    let store = EtcdStore::connect(EtcdOptions::new([etcd.endpoint()])).await.expect("a store");
    let setup = Setup { store: Some(Arc::new(store)), write_probe: true, ..Setup::default() };
    let kitchen = Kitchen::with(setup).await;
    let client = kitchen.client();
    client.create_pot("kept", json!({"dish": "soup"})).await;
    etcd.save_snapshot(snapshot).await.expect("a snapshot");
    client.create_pot("ghost", json!({"dish": "soup"})).await;
    let changed = client.merge(&format!("{POTS}/kept"), &json!({"spec": {"servings": 9}})).await.expect(200);
    let mut watch = client.watch(&format!("{POTS}?watch=true&resourceVersion={}", version(&changed))).await;

    etcd.restore_snapshot(snapshot, arguments).await.expect("restored");
    // A watch whose cache lost the store first ends without an event. Its client resumes, as below.
    if let Some(end) = watch.next().await {
        assert_eq!((&end["type"], &end["object"]["reason"]), (&json!("ERROR"), &json!("Expired")), "{end}");
    }
    eventually("the server is ready again", || async { client.get("/readyz").await.code == 200 }).await;
    let items = client.get(&format!("{POTS}?resourceVersion=0")).await.expect(200)["items"].clone();
    let names: Vec<_> = items.as_array().expect("items").iter().map(|pot| &pot["metadata"]["name"]).collect();
    assert_eq!(names, ["kept"], "from the cache");
    client.get(&format!("{POTS}/ghost")).await.refused(404, "NotFound");
    let kept = client.get(&format!("{POTS}/kept")).await.expect(200);
    assert_ne!(kept["spec"]["servings"], json!(9));
    let lost = format!("{POTS}?watch=true&resourceVersion={}", version(&changed));
    let refused = client.watch(&lost).await.next().await.expect("an event");
    assert_eq!(refused["object"]["reason"], "Expired", "{refused}");
    let newest = version(&client.get(POTS).await.expect(200));
    let mut watch = client.watch(&format!("{POTS}?watch=true&resourceVersion={newest}")).await;
    client.create_pot("next", json!({"dish": "soup"})).await;
    assert_eq!(summary(&watch.next().await.expect("an event")).1, "next", "the new history is watched");
}

#[tokio::test]
async fn a_server_whose_etcd_went_back_serves_no_ghost_and_makes_clients_list_again() {
    server_serves_no_ghost(&[]).await;
}

#[tokio::test]
async fn a_server_whose_etcd_was_restored_with_a_bumped_revision_serves_no_ghost() {
    server_serves_no_ghost(&BUMPED).await;
}
