//! Waiting for what a process does.

use std::fmt::Display;
use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::process::ExitStatus;
use std::time::Duration;

use crate::component::http_ok;
use crate::{Error, Process, Result, eventually};

/// Maximum size of a log's end in an error, in bytes.
const TAIL: u64 = 4096;

impl Process {
    /// Waits until `probe` returns `Ok`: see [`eventually`].
    ///
    /// # Errors
    ///
    /// [`Error::Exited`] at once when the process has ended, [`Error::NotReady`] after `timeout`; both show
    /// the end of its log.
    pub async fn wait_for<T, E, F, Fut>(&self, timeout: Duration, what: &str, mut probe: F) -> Result<T>
    where
        E: Display,
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        enum Outcome<T> {
            Ready(T),
            Exited(Option<ExitStatus>),
        }
        let waited = eventually(timeout, what, || {
            let exited = (!self.is_running()).then(|| self.exit_status());
            let look = exited.is_none().then(&mut probe);
            async move {
                match (exited, look) {
                    (Some(status), _) => Ok(Outcome::Exited(status)),
                    (None, Some(look)) => look.await.map(Outcome::Ready).map_err(|seen| format!("{seen:#}")),
                    (None, None) => Err("nothing".to_owned()),
                }
            }
        })
        .await;
        match waited {
            Ok(Outcome::Ready(value)) => Ok(value),
            Ok(Outcome::Exited(Some(status))) => Err(Error::Exited {
                name: self.name().to_owned(),
                status,
                log: self.log_path().to_owned(),
                tail: self.tail(),
            }),
            Ok(Outcome::Exited(None)) => Err(Error::NotRunning { name: self.name().to_owned() }),
            Err(timed_out) => {
                let source = Box::new(timed_out);
                Err(Error::NotReady {
                    name: self.name().to_owned(),
                    log: self.log_path().to_owned(),
                    tail: self.tail(),
                    source,
                })
            }
        }
    }

    /// Waits until the log of this or an earlier run contains `text`.
    ///
    /// # Errors
    ///
    /// As for [`Process::wait_for`].
    pub async fn wait_for_log(&self, timeout: Duration, text: &str) -> Result<()> {
        self.wait_for(timeout, &format!("{text:?} in the log"), async || match self.log() {
            Ok(log) if log.contains(text) => Ok(()),
            Ok(_) => Err("a log without it".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Waits until the log contains `text` after its first `mark` bytes: see [`Process::mark`].
    ///
    /// # Errors
    ///
    /// As for [`Process::wait_for`].
    pub async fn wait_for_log_since(&self, timeout: Duration, mark: usize, text: &str) -> Result<()> {
        self.wait_for(timeout, &format!("{text:?} in the log"), async || match self.log() {
            Ok(log) if log.get(mark..).is_some_and(|log| log.contains(text)) => Ok(()),
            Ok(_) => Err("a log without it".to_owned()),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Waits until something listens at `port` of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// As for [`Process::wait_for`].
    pub async fn wait_for_port(&self, timeout: Duration, port: u16) -> Result<()> {
        self.wait_for(timeout, &format!("a listener at port {port}"), async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map(drop)
        })
        .await
    }

    /// Waits until a plain HTTP GET of `path` at `port` of 127.0.0.1 is answered with 200.
    ///
    /// # Errors
    ///
    /// As for [`Process::wait_for`].
    pub async fn wait_for_http(&self, timeout: Duration, port: u16, path: &str) -> Result<()> {
        let what = format!("200 from http://127.0.0.1:{port}{path}");
        self.wait_for(timeout, &what, async || http_ok(port, path).await).await
    }

    fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(self.log_path())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_else(|error| format!("(cannot be read: {error})"))
    }
}
