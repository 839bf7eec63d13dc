//! Certificates for etcd, and their reload while the server runs.

use std::{
    error::Error,
    path::{Path, PathBuf},
    time::Duration,
};

use machinery_storage::{EtcdStore, EtcdTls};
use tokio::time::MissedTickBehavior;

use crate::{Options, RunError};

/// Interval between reads of the files. Certificates are renewed long before they expire.
const INTERVAL: Duration = Duration::from_secs(30);

/// Files that `--etcd-cafile`, `--etcd-certfile` and `--etcd-keyfile` name.
#[derive(Clone, Debug)]
pub(crate) struct EtcdTlsFiles {
    ca: PathBuf,
    identity: Option<(PathBuf, PathBuf)>,
}

/// Content of the files.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pems {
    ca: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Consumer of new certificates.
pub(crate) trait TakesTls {
    /// Uses these certificates for new connections, or keeps the old ones.
    async fn renew(&self, pems: Pems) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl EtcdTlsFiles {
    /// Returns the files; `None` for etcd without TLS.
    pub(crate) fn of(options: &Options) -> Option<Self> {
        let certificate = options.etcd_certfile.clone();
        Some(Self {
            ca: options.etcd_cafile.clone()?,
            identity: certificate.zip(options.etcd_keyfile.clone()),
        })
    }

    /// Reads the files.
    ///
    /// # Errors
    ///
    /// [`RunError::Read`] with the file that cannot be read.
    pub(crate) async fn read(&self) -> Result<Pems, RunError> {
        let identity = match &self.identity {
            Some((certificate, key)) => Some((read(certificate).await?, read(key).await?)),
            None => None,
        };
        Ok(Pems { ca: read(&self.ca).await?, identity })
    }

    /// Reads the files again at each interval and hands on every change since `pems`. Logs a failure once,
    /// and keeps the old certificates until there are good ones.
    pub(crate) async fn follow(self, mut pems: Pems, takes: impl TakesTls) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unreadable = false;
        loop {
            ticks.tick().await;
            let now = match self.read().await {
                Ok(now) => now,
                Err(error) => {
                    if !std::mem::replace(&mut unreadable, true) {
                        kept(&error);
                    }
                    continue;
                }
            };
            unreadable = false;
            if now == pems {
                continue;
            }
            pems = now.clone();
            match takes.renew(now).await {
                Ok(()) => tracing::info!(ca = %self.ca.display(), "etcd certificates reloaded"),
                Err(error) => kept(error.as_ref()),
            }
        }
    }
}

fn kept(error: &(dyn Error + 'static)) {
    tracing::error!(error, "etcd certificates not reloaded, keeping the old ones");
}

impl From<Pems> for EtcdTls {
    fn from(pems: Pems) -> Self {
        Self { ca: pems.ca, identity: pems.identity }
    }
}

impl TakesTls for std::sync::Arc<EtcdStore> {
    async fn renew(&self, pems: Pems) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.renew_tls(pems.into()).await?)
    }
}

async fn read(file: &Path) -> Result<Vec<u8>, RunError> {
    tokio::fs::read(file).await.map_err(|source| RunError::Read { file: file.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;

    struct Taker(UnboundedSender<String>);

    impl TakesTls for Taker {
        async fn renew(&self, pems: Pems) -> Result<(), Box<dyn Error + Send + Sync>> {
            let ca = String::from_utf8(pems.ca)?;
            self.0.send(ca.clone())?;
            if ca == "bad" { Err("bad".into()) } else { Ok(()) }
        }
    }

    async fn taken(receiver: &mut UnboundedReceiver<String>) -> String {
        let wait = tokio::time::timeout(INTERVAL * 4, receiver.recv());
        wait.await.expect("new certificates").expect("it goes on")
    }

    #[tokio::test(start_paused = true)]
    async fn new_certificates_are_handed_on_once_and_bad_or_missing_files_end_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.crt");
        let files = EtcdTlsFiles { ca: ca.clone(), identity: None };
        std::fs::write(&ca, "first").unwrap();
        let first = files.read().await.unwrap();
        let (sender, mut receiver) = unbounded_channel();
        let following = tokio::spawn(files.follow(first, Taker(sender)));
        tokio::time::sleep(INTERVAL * 3).await;
        assert!(receiver.is_empty(), "nothing has changed");
        std::fs::write(&ca, "bad").unwrap();
        assert_eq!(taken(&mut receiver).await, "bad");
        std::fs::remove_file(&ca).unwrap();
        tokio::time::sleep(INTERVAL * 3).await;
        std::fs::write(&ca, "second").unwrap();
        assert_eq!(taken(&mut receiver).await, "second");
        tokio::time::sleep(INTERVAL * 3).await;
        assert!(receiver.is_empty(), "what was taken is not handed on again");
        following.abort();
    }

    #[tokio::test]
    async fn a_file_that_is_missing_is_named() {
        let files = EtcdTlsFiles { ca: PathBuf::from("/nowhere/ca.crt"), identity: None };
        let error = files.read().await.map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/ca.crt");
    }
}
