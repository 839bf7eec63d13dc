//! The flags for cluster and user, which kubectl's own commands have too.

use std::time::Duration;

use serde_json::json;

use crate::desk::{Desk, assert_has};

#[tokio::test(flavor = "multi_thread")]
async fn a_group_can_be_impersonated_and_a_cluster_be_chosen() {
    let desk = Desk::new("connection").await;
    desk.silent_pod("db-0").await;
    let error = desk.fails(1, &["evacuate", "why", "db-0", "--as=stranger"]).await;
    assert_has(&error, &["stranger", "cannot get"]);
    let why = desk.kubectl(&["evacuate", "why", "db-0", "--as=stranger", "--as-group=system:masters"]).await;
    assert_has(&why, &["db-0", "Nobody asks it to move."]);
    let error = desk.fails(1, &["evacuate", "why", "db-0", "--as-group=system:masters"]).await;
    assert_has(&error, &["--as"]);

    let first = ["config", "view", "-o", "jsonpath={.clusters[0].name}"];
    let cluster = format!("--cluster={}", desk.platform().kubectl(&first).await.unwrap().stdout.trim());
    desk.kubectl(&["evacuate", "why", "db-0", &cluster]).await;
    let error = desk.fails(1, &["evacuate", "why", "db-0", "--cluster=nowhere"]).await;
    assert_has(&error, &["nowhere"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_too_long_is_an_error() {
    let desk = Desk::new("patience").await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "silent",
        "clusters": [{"name": "silent", "cluster": {"server": server}}],
        "contexts": [{"name": "silent", "context": {"cluster": "silent"}}],
    });
    let file = format!("--kubeconfig={}", desk.file("silent.json", &kubeconfig.to_string()));
    let began = std::time::Instant::now();
    let output =
        desk.platform().kubectl(&["evacuate", "status", &file, "--request-timeout=1s"]).await.unwrap();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &["error: ", "nodeevacuations cannot be listed"]);
    // kube's own retries take four minutes.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_logged_from_level_6_on() {
    let desk = Desk::new("verbose").await;
    desk.silent_pod("db-0").await;
    for (flag, expected) in [("-v=5", false), ("-v=6", true), ("--v=6", true)] {
        let output = desk.run(&["evacuate", "why", "db-0", flag]).await;
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(output.stderr.contains("/pods/db-0"), expected, "{flag}: {output:?}");
        assert!(!output.stdout.contains("http"), "{output:?}");
    }
}
