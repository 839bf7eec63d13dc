use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Process, Result};

/// Time limit for a component to become ready: much, because other tests may keep the machine busy.
pub(crate) const READY: Duration = Duration::from_mins(2);
/// Time limit of one look at a component.
const LOOK: Duration = Duration::from_secs(15);

/// One program of the control plane, which a test may take away and bring back.
#[derive(Debug)]
pub struct Component {
    process: Process,
    readiness: Readiness,
}

/// Sign that a component is ready.
#[derive(Debug, Clone)]
pub(crate) enum Readiness {
    /// It answers 200 on this plain HTTP path of 127.0.0.1.
    Http { port: u16, path: &'static str },
    /// `GET /readyz` through this configuration answers `ok`.
    ApiServer(Box<kube::Config>),
    /// It listens at this port of 127.0.0.1.
    Listens { port: u16 },
    /// Only its effects show it.
    Unknown,
}

impl Component {
    pub(crate) fn new(process: Process, readiness: Readiness) -> Self {
        Self { process, readiness }
    }

    /// The process: its log, number and signals.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it at once, as a crash would. What it stored stays. Nothing happens when it is not running.
    ///
    /// # Errors
    ///
    /// Fails when the system refuses.
    pub fn stop(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts it again, on the same port with the same files, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails when it ends or does not become ready.
    pub async fn start(&self) -> Result<()> {
        self.process.start()?;
        self.ready().await
    }

    /// Freezes it: its connections stay open, and nothing answers.
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn pause(&self) -> Result<()> {
        self.process.pause()
    }

    /// Lets it go on after [`Component::pause`].
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn resume(&self) -> Result<()> {
        self.process.resume()
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails when it ends or does not become ready within two minutes.
    pub async fn ready(&self) -> Result<()> {
        let name = self.process.name();
        self.process
            .wait_for(READY, &format!("{name} is ready"), async || {
                timeout(LOOK, self.readiness.look()).await.unwrap_or_else(|_| Err("no answer".to_owned()))
            })
            .await
    }
}

impl Readiness {
    async fn look(&self) -> Result<(), String> {
        match self {
            Self::Http { port, path } => http_ok(*port, path).await.map_err(|error| error.to_string()),
            Self::ApiServer(config) => {
                let answer = async {
                    let client = kube::Client::try_from(config.as_ref().clone())?;
                    let request =
                        http::Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError)?;
                    client.request_text(request).await
                };
                answer.await.map(drop).map_err(|error| error.to_string())
            }
            Self::Listens { port } => TcpStream::connect((Ipv4Addr::LOCALHOST, *port))
                .await
                .map(drop)
                .map_err(|error| error.to_string()),
            Self::Unknown => Ok(()),
        }
    }
}

/// A `GET` that needs no HTTP client: the status line says all.
pub(crate) async fn http_ok(port: u16, path: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        Ok(())
    } else {
        Err(io::Error::other(format!("status {status:?}")))
    }
}
