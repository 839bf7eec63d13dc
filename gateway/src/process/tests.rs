use std::net::{Ipv4Addr, TcpListener};

use machinery_merge::{Strictness, decode_yaml};
use rcgen::generate_simple_self_signed;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SingleCertAndKey},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::*;

/// An address of the loopback network that no other process listens on.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 83, 12, 7);
/// Maximum time of a step on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of connections. actix lets a thread have 256 handshakes at a time, unless it is told otherwise.
const SILENT: usize = 300;

/// The gateway's manifests.
const POLICY: &str = include_str!("../../../deploy/components/gateway/network-policy.yaml");
const WORKLOAD: &str = include_str!("../../../deploy/components/gateway/workload.yaml");

/// # Attack
///
/// - Attacker: any pod of the cluster
/// - Act: opens connections to the gateway and sends nothing, so that the kube-apiserver gets none
/// - Promise: 11
#[tokio::test]
async fn connections_that_send_nothing_keep_no_other_from_its_handshake() {
    let made = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate: CertificateDer<'static> = made.cert.into();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = CertifiedKey::from_der(vec![certificate.clone()], key, &provider).unwrap();
    let tls = tls::tls(Arc::new(SingleCertAndKey::from(pair)), None).unwrap();
    let port = TcpListener::bind((ADDRESS, 0)).unwrap().local_addr().unwrap().port();
    let server =
        serve((ADDRESS, port).into(), 1, (tls, PATIENCE * 2), || |_: &mut ServiceConfig| {}).unwrap();
    let handle = server.handle();
    tokio::spawn(server);

    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect((ADDRESS, port)).await.unwrap());
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect((ADDRESS, port)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let shaken = timeout(PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
    assert!(shaken.expect("the handshake ends while the others send nothing").is_ok());
    drop(silent);
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
