//! The server's certificate, which changes while the server runs.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{error::with_causes, tls::provider};

/// Interval between reads of the files. Kubernetes changes the files of a Secret by a symbolic link on the
/// folder, which only reading them detects.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reason that a pair of certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServingCertificateError {
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A file is not PEM, or holds no certificate or key.
    #[error("{} holds no usable PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Error of the parser.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The key is of a kind that is not supported, or not the certificate's.
    #[error("{} and {} make no pair", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Error of the TLS library.
        #[source]
        source: rustls::Error,
    },
}

/// The server's certificate and key, from two PEM files that are read again every 5 s.
///
/// # Guarantees
///
/// Handshakes that begin after a new pair was read use it; open connections stay. A pair that cannot be used
/// (half written, the key of another certificate) is logged once. The old pair is kept until there is a valid
/// one.
#[derive(Debug)]
pub struct ServingCertificate {
    files: Files,
    current: ArcSwap<CertifiedKey>,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Hash of the contents of the files.
type Digests = [u8; 32];

impl ServingCertificate {
    /// Reads the files, and again every 5 s until `shutdown`.
    ///
    /// # Errors
    ///
    /// The files hold no usable pair at the start.
    pub async fn start(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        shutdown: CancellationToken,
    ) -> Result<Arc<Self>, ServingCertificateError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let (pems, seen) = files.read().await?;
        let current = ArcSwap::from_pointee(files.pair(&pems)?);
        let this = Arc::new(Self { files, current });
        tokio::spawn(shutdown.run_until_cancelled_owned(Arc::clone(&this).follow(seen)));
        Ok(this)
    }

    async fn follow(self: Arc<Self>, mut seen: Digests) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unreadable = false;
        loop {
            ticks.tick().await;
            match self.files.read().await {
                Ok((pems, now)) => {
                    unreadable = false;
                    if now != seen {
                        seen = now;
                        self.take(&pems);
                    }
                }
                Err(error) if !unreadable => {
                    unreadable = true;
                    report(&error);
                }
                Err(_) => {}
            }
        }
    }

    fn take(&self, pems: &Pems) {
        match self.files.pair(pems) {
            Ok(pair) => {
                self.current.store(Arc::new(pair));
                tracing::info!(certificate = %self.files.certificate.display(), "serving certificate reloaded");
            }
            Err(error) => report(&error),
        }
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The contents of the two files.
struct Pems {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    async fn read(&self) -> Result<(Pems, Digests), ServingCertificateError> {
        let pems = Pems { certificate: read(&self.certificate).await?, key: read(&self.key).await? };
        let mut hash = Sha256::new();
        hash.update(Sha256::digest(&pems.certificate));
        hash.update(Sha256::digest(&pems.key));
        Ok((pems, hash.finalize().into()))
    }

    fn pair(&self, pems: &Pems) -> Result<CertifiedKey, ServingCertificateError> {
        let pem = |path: &Path, source| ServingCertificateError::Pem { path: path.to_owned(), source };
        let chain = CertificateDer::pem_slice_iter(&pems.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| pem(&self.certificate, source))?;
        let key = PrivateKeyDer::from_pem_slice(&pems.key).map_err(|source| pem(&self.key, source))?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|source| ServingCertificateError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            source,
        })
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, ServingCertificateError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| ServingCertificateError::Read { path: path.to_owned(), source })
}

fn report(error: &ServingCertificateError) {
    tracing::error!(
        error = with_causes(error),
        "the new serving certificate is not used, the old one is kept"
    );
}
