use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::component::Readiness;
use crate::{Binaries, Component, Folder, IdentityFiles, Pki, Process, Program, Result, free_port};

/// One etcd server on loopback, with an empty store.
///
/// Its data outlives [`Etcd::stop`] and [`Etcd::start_again`], and goes with this value. It does not wait
/// for the disk (`--unsafe-no-fsync`): a crash of the machine would lose data, a crash of etcd does not.
#[derive(Debug)]
pub struct Etcd {
    component: Component,
    endpoint: String,
    peer: String,
    tls: Option<EtcdTls>,
    // After the component: the process ends before its files go.
    folder: Arc<Folder>,
}

/// The files that a client of an etcd with TLS needs; etcd demands a client certificate.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// The authority that issued the server's certificate.
    pub ca: PathBuf,
    /// A certificate that etcd accepts, and its key.
    pub client: IdentityFiles,
}

impl Etcd {
    /// Starts one without TLS and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails when etcd is not to be had or does not become ready.
    pub async fn start() -> Result<Self> {
        Self::start_alone(false, &[]).await
    }

    /// The same with further arguments of etcd.
    ///
    /// # Errors
    ///
    /// As for [`Etcd::start`].
    pub async fn start_with(arguments: &[String]) -> Result<Self> {
        Self::start_alone(false, arguments).await
    }

    /// Starts one that serves TLS only and demands a client certificate, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails when etcd is not to be had or does not become ready.
    pub async fn start_with_tls() -> Result<Self> {
        Self::start_alone(true, &[]).await
    }

    async fn start_alone(tls: bool, arguments: &[String]) -> Result<Self> {
        let binaries = Binaries::find_or_build_in_background(&[Program::Etcd]).await?;
        let folder = Arc::new(Folder::new("etcd")?);
        let etcd = Self::spawn(&binaries, folder, tls, arguments)?;
        etcd.component.ready().await?;
        Ok(etcd)
    }

    /// Starts one in a folder that others use too; it is not ready yet.
    pub(crate) fn spawn(
        binaries: &Binaries,
        folder: Arc<Folder>,
        tls: bool,
        arguments: &[String],
    ) -> Result<Self> {
        let logs = folder.subfolder("logs")?;
        let data = folder.subfolder("etcd")?;
        let (client_port, peer_port, metrics_port) = (free_port()?, free_port()?, free_port()?);
        let scheme = if tls { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");

        let mut command = Command::new(binaries.path(Program::Etcd));
        command
            .args(["--name", "default", "--unsafe-no-fsync", "--log-level", "warn", "--data-dir"])
            .arg(data.join("data"))
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .args(["--listen-metrics-urls", &format!("http://127.0.0.1:{metrics_port}")])
            .args(arguments);
        let tls = if tls { Some(Self::serve_tls(&mut command, &data)?) } else { None };

        let process = Process::spawn("etcd", command, &logs)?;
        let readiness = Readiness::Http { port: metrics_port, path: "/readyz" };
        Ok(Self { component: Component::new(process, readiness), endpoint, peer, tls, folder })
    }

    fn serve_tls(command: &mut Command, folder: &Path) -> Result<EtcdTls> {
        let pki = Pki::new("etcd-ca")?;
        let ca = folder.join("ca.crt");
        pki.write_ca(&ca)?;
        // etcd's gateway is a client of its own server, with the server's certificate: its name is local.
        let server = pki.serving(&["localhost", "127.0.0.1"])?.write(folder, "server")?;
        let client = pki.client("etcd-client", None)?.write(folder, "client")?;
        command.arg("--cert-file").arg(&server.certificate).arg("--key-file").arg(&server.key);
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&ca);
        Ok(EtcdTls { ca, client })
    }

    /// Its URL, `http://127.0.0.1:PORT` or `https://...`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Files of a client, when it serves TLS.
    pub fn tls(&self) -> Option<&EtcdTls> {
        self.tls.as_ref()
    }

    /// The folder with its data and logs.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// URL that it advertises to other members.
    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    /// The folder of its data.
    pub(crate) fn data(&self) -> Result<PathBuf> {
        Ok(self.folder.subfolder("etcd")?.join("data"))
    }

    /// The program itself: log, signals, readiness.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Kills it, as a crash would. The data stays.
    ///
    /// # Errors
    ///
    /// Fails when the system refuses.
    pub fn stop(&self) -> Result<()> {
        self.component.stop()
    }

    /// Starts it again on the same port with the same data, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Fails when it ends or does not become ready.
    pub async fn start_again(&self) -> Result<()> {
        self.component.start().await
    }

    /// Freezes it: connections stay open, and nothing answers.
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn pause(&self) -> Result<()> {
        self.component.pause()
    }

    /// Lets it go on after [`Etcd::pause`].
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn resume(&self) -> Result<()> {
        self.component.resume()
    }
}
