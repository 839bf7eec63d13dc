use std::time::Duration;

use machinery_server::ServerOptions;
use serde_json::json;

use crate::support::{Kitchen, Setup, eventually};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";

#[tokio::test]
async fn a_server_that_stops_is_not_ready_and_ends_its_watches_in_order() {
    let options = ServerOptions { shutdown_delay: Duration::from_millis(500), ..ServerOptions::default() };
    let mut kitchen = Kitchen::with(Setup { options, ..Setup::default() }).await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let mut watch = client.watch(&format!("{POTS}?watch=true&allowWatchBookmarks=true")).await;
    assert_eq!(watch.event().await.1, "a");

    kitchen.shutdown.cancel();
    eventually("it is not ready", || async { client.get("/readyz").await.code == 500 }).await;
    client.create_pot("b", json!({"dish": "soup"})).await;
    assert_eq!(watch.event().await.1, "b", "still served");
    assert_eq!(watch.next().await.expect("a bookmark")["type"], "BOOKMARK");
    assert_eq!(watch.next().await, None, "the watch ends in order");
    let served = tokio::time::timeout(Duration::from_secs(20), &mut kitchen.running).await.expect("in time");
    served.expect("no panic").expect("no error");
}
