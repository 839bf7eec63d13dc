//! TLS of the webhooks.

use std::{path::Path, sync::Arc};

use machinery_auth::server_config;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, pem::PemObject},
    server::{ResolvesServerCert, WebPkiClientVerifier},
};

use super::RunError;

/// Returns the TLS settings. With a CA, only clients with a certificate of that CA are served.
pub(super) fn tls(
    certificate: Arc<dyn ResolvesServerCert>,
    client_ca: Option<&Path>,
) -> Result<ServerConfig, RunError> {
    let Some(path) = client_ca else {
        return server_config(certificate).map_err(|source| RunError::Tls(Box::new(source)));
    };
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| RunError::ClientCa {
        path: path.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(path).map_err(|source| unusable(Box::new(source)))? {
        let found = found.map_err(|source| unusable(Box::new(source)))?;
        roots.add(found).map_err(|source| unusable(Box::new(source)))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|source| unusable(Box::new(source)))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| RunError::Tls(Box::new(source)))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::{
        ClientConfig,
        pki_types::{PrivateKeyDer, ServerName},
        sign::{CertifiedKey, SingleCertAndKey},
    };
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    struct Ca {
        issuer: Issuer<'static, KeyPair>,
        certificate: rcgen::Certificate,
    }

    type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

    impl Ca {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            Self { certificate, issuer: Issuer::new(params, key) }
        }

        fn leaf(&self) -> Identity {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            (certificate.into(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        }
    }

    /// Returns whether the server takes a client with that certificate.
    async fn takes(server: ServerConfig, ca: &Ca, client: Option<Identity>) -> bool {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(ca.certificate.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_root_certificates(roots);
        let config = match client {
            Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let (near, far) = tokio::io::duplex(1 << 16);
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let (_, accepted) =
            tokio::join!(connector.connect(name, near), TlsAcceptor::from(Arc::new(server)).accept(far));
        accepted.is_ok()
    }

    #[tokio::test]
    async fn with_a_ca_only_its_clients_are_served_and_without_one_all() {
        let (serving, clients, others) = (Ca::new(), Ca::new(), Ca::new());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, clients.certificate.pem()).unwrap();
        let config = |client_ca| {
            let (certificate, key) = serving.leaf();
            let provider = rustls::crypto::ring::default_provider();
            let pair = CertifiedKey::from_der(vec![certificate], key, &provider).unwrap();
            tls(Arc::new(SingleCertAndKey::from(pair)), client_ca).unwrap()
        };
        assert!(takes(config(Some(&path)), &serving, Some(clients.leaf())).await);
        assert!(!takes(config(Some(&path)), &serving, Some(others.leaf())).await);
        assert!(!takes(config(Some(&path)), &serving, None).await);
        assert!(takes(config(None), &serving, None).await);
    }
}
