use std::sync::Arc;

use machinery_auth::server_config;
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};

use crate::{
    certificate::{Ca, Leaf},
    handshake::{client, handshake, presented, with_key},
};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

fn server(leaf: &Leaf) -> Arc<ServerConfig> {
    let pair = Arc::unwrap_or_clone(with_key(leaf, leaf));
    Arc::new(server_config(Arc::new(SingleCertAndKey::from(pair))).unwrap())
}

#[test]
fn clients_need_no_certificate() {
    let ca = Ca::new("serving");
    let server = server(&ca.server("api"));
    for version in VERSIONS {
        let (_, connection) = handshake(client(&ca, None, version), Arc::clone(&server)).unwrap();
        assert!(presented(connection.peer_certificates()).is_none());
    }
}

#[test]
fn any_certificate_of_which_the_client_has_the_key_is_taken() {
    let ca = Ca::new("serving");
    let server = server(&ca.server("api"));
    let jane = Ca::new("unknown").client("jane", "");
    for version in VERSIONS {
        let client = client(&ca, Some(with_key(&jane, &jane)), version);
        let (_, connection) = handshake(client, Arc::clone(&server)).unwrap();
        assert_eq!(presented(connection.peer_certificates()), Some(&jane.certificate));
    }
}

#[test]
fn a_certificate_of_which_the_client_has_no_key_is_refused() {
    let ca = Ca::new("serving");
    let server = server(&ca.server("api"));
    let users = Ca::new("users");
    let (jane, mallory) = (users.client("jane", ""), users.client("mallory", ""));
    for version in VERSIONS {
        let client = client(&ca, Some(with_key(&jane, &mallory)), version);
        assert!(handshake(client, Arc::clone(&server)).is_err(), "{version:?}");
    }
}

#[test]
fn http_2_is_not_offered() {
    let ca = Ca::new("serving");
    let (client, _) = handshake(client(&ca, None, &TLS13), server(&ca.server("api"))).unwrap();
    assert_eq!(client.alpn_protocol(), Some(b"http/1.1".as_slice()));
}
