//! TLS handshakes in memory.

use std::sync::Arc;

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion,
    client::ResolvesClientCert,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
    sign::CertifiedKey,
};

use crate::certificate::{Ca, Leaf};

/// A client that trusts `ca` and presents `certificate`, if any.
pub(crate) fn client(
    ca: &Ca,
    certificate: Option<Arc<CertifiedKey>>,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.certificate.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(Presents(certificate)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A certificate with a key, which need not be its own.
pub(crate) fn with_key(certificate: &Leaf, key: &Leaf) -> Arc<CertifiedKey> {
    let key = ring::sign::any_supported_type(&key.key()).unwrap();
    Arc::new(CertifiedKey::new(certificate.chain(), key))
}

/// Both sides after the handshake.
pub(crate) fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
    let mut client = ClientConnection::new(client, ServerName::try_from("localhost").unwrap())?;
    let mut server = ServerConnection::new(server)?;
    while client.wants_write() || server.wants_write() || client.is_handshaking() || server.is_handshaking() {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        server.read_tls(&mut sent.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut sent = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut sent).unwrap();
        }
        client.read_tls(&mut sent.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok((client, server))
}

/// Presents the same certificate whatever the server asks for, as a client may.
#[derive(Debug)]
struct Presents(Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Presents {
    fn resolve(&self, hints: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        assert!(hints.is_empty(), "a client that minds hints might hold its certificate back");
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// The end entity of what the peer presented.
pub(crate) fn presented<'a>(
    chain: Option<&'a [CertificateDer<'static>]>,
) -> Option<&'a CertificateDer<'static>> {
    chain.and_then(<[_]>::first)
}
