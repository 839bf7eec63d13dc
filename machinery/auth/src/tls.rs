//! TLS of the server.

use std::{sync::Arc, time::Duration};

use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        ParsedCertificate, ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    version::{TLS12, TLS13},
};

/// Number of TLS handshakes of a server's thread that are under way at a time. Further clients wait, so that
/// it is far above the number that a silent client keeps open without effort.
pub const MAX_HANDSHAKES: usize = 8192;
/// Maximum time of a TLS handshake. It exceeds the 10 s after which Go's clients give up. In TLS 1.3 a client
/// has ended its handshake before the server has, and sends its request: a server that gives up first loses
/// it, and a kube-apiserver without CPU needs seconds for its part.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// Provider of cryptography: ring.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the TLS settings of an API server: versions 1.2 and 1.3, optional client certificates (see
/// [`AnyClientCertificate`]), HTTP/1.1 only.
///
/// HTTP/2 is not offered: on it a server notices late that the client of a watch has left.
///
/// # Errors
///
/// None that the arguments could cause: only if ring did not support these versions.
pub fn server_config(certificate: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(Arc::new(AnyClientCertificate::new()))
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Requests a certificate from clients and accepts any, or none.
///
/// A client that presents a certificate proves that it has the key. The authenticators check the signer for
/// each request: the CAs change while connections stay open, and there are two sets of them. For the same
/// reason no CAs are suggested to clients, which may then choose any certificate.
#[derive(Debug)]
pub struct AnyClientCertificate {
    provider: Arc<CryptoProvider>,
}

impl AnyClientCertificate {
    /// Verifies handshakes with ring.
    pub fn new() -> Self {
        Self { provider: provider() }
    }
}

impl Default for AnyClientCertificate {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        ParsedCertificate::try_from(end_entity).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
