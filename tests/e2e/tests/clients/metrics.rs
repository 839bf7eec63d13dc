//! Metrics, beside those of kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;

use crate::workbench::Workbench;

/// Metrics that dashboards for kube-apiserver read, and that this server has, too.
const EXPECTED: [&str; 9] = [
    "apiserver_current_inflight_requests",
    "apiserver_flowcontrol_dispatched_requests_total",
    "apiserver_flowcontrol_request_wait_duration_seconds_bucket",
    "apiserver_longrunning_requests",
    "apiserver_request_duration_seconds_bucket",
    "apiserver_request_total",
    "apiserver_resource_objects",
    "apiserver_watch_events_total",
    "etcd_request_duration_seconds_bucket",
];

/// Returns the names of the labels of each metric in a text of metrics.
fn labels(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let metrics = lines.filter_map(|line| {
        let (name, rest) = line.split_once('{')?;
        let (labels, _) = rest.rsplit_once('}')?;
        let names = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name);
        Some((name.to_owned(), names.map(str::to_owned).collect()))
    });
    metrics.collect()
}

async fn metrics(client: Client) -> BTreeMap<String, BTreeSet<String>> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    labels(&client.request_text(request).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_kube_apiserver_has_too_have_the_same_labels() {
    let bench = Workbench::new("metrics").await;
    bench.register("db", "db.acme.io/failover", serde_json::json!({})).await;
    let theirs = metrics(bench.admin()).await;
    let mut config = bench.control_plane().client_config();
    let port = bench.platform().apiserver_ports()[0];
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    let ours = metrics(Client::try_from(config).unwrap()).await;
    for name in EXPECTED {
        assert!(ours.contains_key(name) && theirs.contains_key(name), "{name} is missing");
    }
    for (name, labels) in &ours {
        if let Some(expected) = theirs.get(name).filter(|_| !name.starts_with("process_")) {
            assert_eq!(labels, expected, "{name}");
        }
    }
}
