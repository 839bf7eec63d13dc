use std::net::{Ipv4Addr, TcpListener};

use rcgen::generate_simple_self_signed;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::*;

/// An address of the loopback network that no other process listens on.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 83, 12, 7);
/// Maximum time of a step on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of connections. actix lets a thread have 256 handshakes at a time, unless it is told otherwise.
const SILENT: usize = 300;

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
