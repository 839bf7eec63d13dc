//! Client certificates that a bundle of CAs signed.

use std::{fmt, ops::RangeInclusive, sync::Arc};

use rustls::{
    CertificateError, RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::provider;

/// Reason that a CA bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaBundleError {
    /// The text is not PEM.
    #[error("the CA bundle is not PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// The bundle holds no certificate. A bundle that trusts nobody is more likely an accident than meant.
    #[error("the CA bundle holds no certificate")]
    Empty,
    /// One of its certificates cannot be read.
    #[error("certificate {index} of the CA bundle cannot be read: {reason}")]
    Certificate {
        /// Number of the certificate, from 0.
        index: usize,
        /// Problem that the parser reports.
        reason: String,
    },
}

/// CAs that sign client certificates.
///
/// # Guarantees
///
/// A chain is accepted when it leads from the end entity to one of the CAs, over intermediates that the peer
/// sent. Every certificate of it, including the CA, must be valid at that time. The extended key usage of the
/// end entity, if it has one, must allow client authentication. This is Go's `x509.Verify` with
/// `ExtKeyUsageClientAuth`.
///
/// # Caveats
///
/// The signature algorithms are those of ring: no ECDSA P-521 and no RSA keys under 2048 bits. Revocation is
/// not checked; kube-apiserver does not check it either.
#[derive(Clone)]
pub struct CaBundle {
    anchors: Vec<Anchor>,
}

/// One CA. Each has a verifier of its own, because webpki does not check the validity of its anchors.
#[derive(Clone)]
struct Anchor {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Validity, in seconds since the epoch.
    valid: RangeInclusive<i64>,
}

impl CaBundle {
    /// Reads the certificates of a PEM text. Anything else in the text is skipped.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CaBundleError> {
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(CaBundleError::Pem)?;
        if certificates.is_empty() {
            return Err(CaBundleError::Empty);
        }
        let anchors = certificates.into_iter().enumerate().map(|(index, certificate)| {
            Anchor::new(certificate).map_err(|reason| CaBundleError::Certificate { index, reason })
        });
        Ok(Self { anchors: anchors.collect::<Result<_, _>>()? })
    }

    /// Verifies that one of the CAs signed the chain that the peer sent, and that both are valid at `now`.
    ///
    /// # Errors
    ///
    /// The most specific reason. A problem of a chain under its own CA precedes the fact that other CAs do
    /// not know it.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), rustls::Error> {
        let Some((end_entity, intermediates)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let not_now = rustls::Error::General("the certificate of its CA is not valid now".to_owned());
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let mut failure = unknown.clone();
        for anchor in &self.anchors {
            let verified = anchor.verifier.verify_client_cert(end_entity, intermediates, now);
            match verified {
                Ok(_) if anchor.valid.contains(&seconds) => return Ok(()),
                Ok(_) => failure = not_now.clone(),
                Err(error) if failure == unknown => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }
}

impl Anchor {
    fn new(certificate: CertificateDer<'static>) -> Result<Self, String> {
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| error.to_string())?;
        let validity = parsed.validity();
        let valid = validity.not_before.timestamp()..=validity.not_after.timestamp();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).map_err(|error| error.to_string())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { verifier, valid })
    }
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CaBundle").field("certificates", &self.anchors.len()).finish()
    }
}
