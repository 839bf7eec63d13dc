//! The server over real HTTP on a real etcd that stops and comes back.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panic")]

use std::sync::Arc;

use controlplane::Etcd;
use machinery_storage::{EtcdOptions, EtcdStore};
use serde_json::json;

use crate::support::{Kitchen, Setup, eventually, pot};

#[path = "../../../machinery/server/tests/http/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the server use the rest")]
mod support;

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

#[tokio::test]
async fn a_real_etcd_that_stops_and_comes_back_loses_no_object_and_no_event() {
    let etcd = Etcd::start().await.expect("etcd");
    let store = EtcdStore::connect(EtcdOptions::new([etcd.endpoint()])).await.expect("a store");
    let kitchen = Kitchen::with(Setup { store: Some(Arc::new(store)), ..Setup::default() }).await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup", "stove": "1"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(watch.event().await.1, "a");

    etcd.stop().expect("stopped");
    client.post(POTS, &pot("b", json!({"dish": "soup"}))).await.refused(503, "ServiceUnavailable");
    etcd.start_again().await.expect("started");
    eventually("the server serves again", || async { client.get("/readyz").await.code == 200 }).await;

    client.get(A).await.expect(200);
    let taken = client.post(POTS, &pot("c", json!({"dish": "soup", "stove": "1"}))).await;
    taken.refused(409, "AlreadyExists");
    client.create_pot("d", json!({"dish": "soup"})).await;
    loop {
        // The create that failed may have been carried out: then it is reported, too.
        let (event_type, name, _) = watch.event().await;
        assert_eq!(event_type, "ADDED");
        if name == "d" {
            break;
        }
        assert_eq!(name, "b");
    }
    let list = client.get(POTS).await.expect(200);
    assert!(list["items"].as_array().expect("items").len() >= 2);
}
