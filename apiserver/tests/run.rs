//! Starting and ending, as far as it needs no cluster.

// Clippy knows the tests of an integration test, but not what they share.
#![allow(clippy::expect_used)]

use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
    time::Duration,
};

use clap::Parser;
use evacuation_apiserver::{Options, RunError, run};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Far more than it should take.
const SOON: Duration = Duration::from_secs(20);

/// Returns true when an error is the expected one.
type Expected = fn(&RunError) -> bool;

/// Options of a server whose kube-apiserver does not answer, on this port.
fn options(folder: &Path, port: u16) -> Options {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("tls.crt"), key.cert.pem()).expect("written");
    std::fs::write(folder.join("tls.key"), key.signing_key.serialize_pem()).expect("written");
    // Nobody listens on port 1 of the loopback address.
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    });
    std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).expect("written");
    let file = |name: &str| folder.join(name).display().to_string();
    Options::parse_from([
        "evacuation-apiserver".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("tls.crt")),
        format!("--tls-private-key-file={}", file("tls.key")),
        format!("--kubeconfig={}", file("kubeconfig")),
        "--storage=embedded".to_owned(),
        format!("--data-dir={}", file("data")),
    ])
}

#[tokio::test]
async fn a_server_that_waits_for_the_kube_apiserver_ends_when_it_is_told_to() {
    let folder = TempDir::new().expect("a folder");
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(run(options(folder.path(), 0), shutdown.clone()));
    let store = folder.path().join("data/store.redb");
    let started = async {
        while !store.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, started).await.expect("the store is opened");
    assert!(!running.is_finished(), "it waits");
    shutdown.cancel();
    let ended = tokio::time::timeout(SOON, running).await.expect("it ends");
    ended.expect("no panic").expect("no failure");
}

#[tokio::test]
async fn what_waiting_cannot_mend_is_an_error_at_once() {
    let folder = TempDir::new().expect("a folder");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = taken.local_addr().expect("an address");
    let good = options(folder.path(), 0);
    let missing = folder.path().join("missing");
    let cases: [(&str, Options, Expected); 4] = [
        ("no certificate", Options { tls_cert_file: missing.clone(), ..good.clone() }, |error| {
            matches!(error, RunError::Certificate(_))
        }),
        ("no kubeconfig", Options { kubeconfig: Some(missing.clone()), ..good.clone() }, |error| {
            matches!(error, RunError::Kubeconfig(_))
        }),
        (
            "no CA for etcd",
            Options {
                storage: evacuation_apiserver::Storage::Etcd,
                etcd_cafile: Some(missing),
                ..good.clone()
            },
            |error| matches!(error, RunError::Read { .. }),
        ),
        ("the port is taken", Options { secure_port: address.port(), ..good }, |error| {
            matches!(error, RunError::Listen { .. })
        }),
    ];
    for (what, options, expected) in cases {
        let ended = tokio::time::timeout(SOON, run(options, CancellationToken::new())).await;
        let error = ended.expect("it ends").expect_err(what);
        assert!(expected(&error), "{what}: {error:?}");
    }
}
