use std::net::{Ipv4Addr, TcpListener};

use actix_web::dev::ServerHandle;
use machinery_merge::{Strictness, decode_yaml};
use rcgen::generate_simple_self_signed;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, duplex, split},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::*;

/// An address of the loopback network that no other process listens on.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 83, 12, 7);
/// Maximum time of a step on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of connections. actix lets a thread have 256 handshakes at a time, unless it is told otherwise.
const SILENT: usize = 300;
/// Time that a kube-apiserver without CPU needs for its part of a handshake.
const STALL: Duration = Duration::from_secs(4);

/// The gateway's manifests.
const POLICY: &str = include_str!("../../../deploy/components/gateway/network-policy.yaml");
const WORKLOAD: &str = include_str!("../../../deploy/components/gateway/workload.yaml");

/// Serves nothing but 404 over TLS, with that maximum time of a handshake. Returns its handle, its port, and
/// what connects clients that trust it.
fn server(handshake: Duration) -> (ServerHandle, u16, TlsConnector) {
    let made = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate: CertificateDer<'static> = made.cert.into();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = CertifiedKey::from_der(vec![certificate.clone()], key, &provider).unwrap();
    let tls = tls::tls(Arc::new(SingleCertAndKey::from(pair)), None).unwrap();
    let port = TcpListener::bind((ADDRESS, 0)).unwrap().local_addr().unwrap().port();
    let server = serve((ADDRESS, port).into(), 1, (tls, handshake), || |_: &mut ServiceConfig| {}).unwrap();
    let handle = server.handle();
    tokio::spawn(server);

    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    (handle, port, TlsConnector::from(Arc::new(config)))
}

/// # Attack
///
/// - Attacker: any pod of the cluster
/// - Act: opens connections to the gateway and sends nothing, so that the kube-apiserver gets none
/// - Promise: 11
#[tokio::test]
async fn connections_that_send_nothing_keep_no_other_from_its_handshake() {
    let (handle, port, connector) = server(PATIENCE * 2);
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect((ADDRESS, port)).await.unwrap());
    }
    let stream = TcpStream::connect((ADDRESS, port)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let shaken = timeout(PATIENCE, connector.connect(name, stream)).await;
    assert!(shaken.expect("the handshake ends while the others send nothing").is_ok());
    drop(silent);
    handle.stop(false).await;
}

#[tokio::test]
async fn a_kube_apiserver_that_stalls_in_its_handshake_gets_its_answer() {
    let (handle, port, connector) = server(HANDSHAKE_TIMEOUT);
    let (near, far) = duplex(64 * 1024);
    let relay = tokio::spawn(async move {
        let (mut from_client, mut to_client) = split(far);
        let (mut from_server, mut to_server) =
            TcpStream::connect((ADDRESS, port)).await.unwrap().into_split();
        let back = async {
            tokio::time::sleep(STALL).await;
            copy(&mut from_server, &mut to_client).await
        };
        // Either end closes both.
        tokio::select! {
            _ = copy(&mut from_client, &mut to_server) => {}
            _ = back => {}
        }
    });
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, near).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
    relay.abort();
    handle.stop(false).await;
}

/// Returns the only object of that kind in a manifest.
fn object(manifest: &str, kind: &str) -> Value {
    let mut found = manifest
        .split("\n---\n")
        .map(|text| decode_yaml::<Value>(text.as_bytes(), Strictness::Strict).unwrap().value)
        .filter(|object| object["kind"] == kind);
    let object = found.next().expect(kind);
    assert_eq!(found.next(), None, "one {kind}");
    object
}

/// Returns those texts of the items of a list, in their order.
fn texts(items: &Value, field: &str) -> Vec<String> {
    let mut texts: Vec<String> =
        items.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect();
    texts.sort_unstable();
    texts
}

#[test]
fn the_network_policy_selects_the_gateway_and_opens_its_three_ports_alone() {
    let (policy, service) = (object(POLICY, "NetworkPolicy"), object(WORKLOAD, "Service"));
    let workload = object(WORKLOAD, "Deployment");
    let template = &workload["spec"]["template"];
    assert_eq!(policy["metadata"]["namespace"], workload["metadata"]["namespace"]);
    for (selected, by) in
        [(&policy["spec"]["podSelector"]["matchLabels"], "policy"), (&service["spec"]["selector"], "Service")]
    {
        let labels = selected.as_object().unwrap();
        assert!(!labels.is_empty(), "{by}");
        for (label, value) in labels {
            assert_eq!(template["metadata"]["labels"][label], *value, "{by}: {label}");
        }
    }
    let selector = policy["spec"]["podSelector"].as_object().unwrap();
    assert_eq!(selector.len(), 1, "a second condition could select no pod");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));

    // A rule without ports would open them all.
    let rules = policy["spec"]["ingress"].as_array().unwrap();
    let mut opened: Vec<String> = rules.iter().flat_map(|rule| texts(&rule["ports"], "port")).collect();
    opened.sort_unstable();
    let mut wanted = texts(&service["spec"]["ports"], "targetPort");
    wanted.push("metrics".to_owned());
    wanted.sort_unstable();
    assert_eq!(opened, wanted);

    let container = &template["spec"]["containers"][0];
    assert_eq!(texts(&container["ports"], "name"), wanted, "the names are those of the container");
    let arguments = container["args"].as_array().unwrap();
    for port in container["ports"].as_array().unwrap() {
        let end = format!(":{}", port["containerPort"]);
        let listens = |argument: &&Value| {
            argument.as_str().is_some_and(|text| text.contains("address=") && text.ends_with(&end))
        };
        assert_eq!(arguments.iter().filter(listens).count(), 1, "{port} has a listener");
    }
}
