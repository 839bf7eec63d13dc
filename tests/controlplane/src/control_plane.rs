use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::access::{Access, Credentials};
use crate::apiserver::{ApiServer, Certificates};
use crate::audit::Audited;
use crate::builder::Builder;
use crate::pki::write;
use crate::port::Reservation;
use crate::{Binaries, Component, Error, Etcd, Folder, IdentityFiles, Pki, Process, Result};

/// Maximum length of the name of a file, in bytes.
const LONGEST_FILE: usize = 200;

/// A running control plane.
///
/// It needs no runtime of its own: tests that each have one may share it. Clients do need one, so each test
/// makes its own.
pub struct ControlPlane {
    // In this order they are dropped: the processes before their files.
    kwok: Component,
    scheduler: Component,
    controller_manager: Component,
    apiserver: Component,
    etcd: Etcd,
    access: Access,
    config: kube::Config,
    audit_log: PathBuf,
    pub(crate) audited: Mutex<Audited>,
    certificates: Certificates,
    network: Reservation,
    pod_range: u8,
    binaries: Binaries,
    pub(crate) nodes_made: AtomicUsize,
    folder: Arc<Folder>,
}

/// Parts of a control plane.
pub(crate) struct Parts {
    pub(crate) kwok: Component,
    pub(crate) scheduler: Component,
    pub(crate) controller_manager: Component,
    pub(crate) apiserver: ApiServer,
    pub(crate) etcd: Etcd,
    pub(crate) certificates: Certificates,
    pub(crate) network: Reservation,
    pub(crate) pod_range: u8,
    pub(crate) binaries: Binaries,
    pub(crate) folder: Arc<Folder>,
}

impl ControlPlane {
    /// Begins to describe one. The default is three nodes and Kubernetes' own defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let ApiServer { component, access, config, audit_log } = parts.apiserver;
        Self {
            kwok: parts.kwok,
            scheduler: parts.scheduler,
            controller_manager: parts.controller_manager,
            apiserver: component,
            etcd: parts.etcd,
            access,
            config,
            audit_log,
            audited: Mutex::default(),
            certificates: parts.certificates,
            network: parts.network,
            pod_range: parts.pod_range,
            binaries: parts.binaries,
            nodes_made: AtomicUsize::new(0),
            folder: parts.folder,
        }
    }

    /// The API server's URL, `https://127.0.0.1:PORT`.
    pub fn server(&self) -> &str {
        self.access.server()
    }

    /// A client's configuration as user `admin` of group `system:masters`.
    ///
    /// Retries are off (`default_retry`), so that a test sees each answer as it was given.
    pub fn client_config(&self) -> kube::Config {
        self.config.clone()
    }

    /// A new client as user `admin` of group `system:masters`, for the runtime that this is called on.
    ///
    /// # Errors
    ///
    /// Fails when TLS cannot be set up.
    pub fn client(&self) -> Result<kube::Client> {
        client("admin", self.client_config())
    }

    /// A new client that shows this bearer token.
    ///
    /// # Errors
    ///
    /// Fails when TLS cannot be set up.
    pub async fn client_with_token(&self, token: &str) -> Result<kube::Client> {
        client("token", self.client_config_with_token(token).await?)
    }

    /// A client's configuration with this bearer token, otherwise as [`ControlPlane::client_config`].
    ///
    /// # Errors
    ///
    /// Fails when TLS cannot be set up.
    pub async fn client_config_with_token(&self, token: &str) -> Result<kube::Config> {
        self.access.config("token", &Credentials::Token(token)).await
    }

    /// A new client with a certificate for this user and group.
    ///
    /// # Errors
    ///
    /// Fails when TLS cannot be set up.
    pub async fn client_for_user(&self, user: &str, group: Option<&str>) -> Result<kube::Client> {
        let identity = self.certificates.cluster.client(user, group)?;
        client(user, self.access.config(user, &Credentials::Certificate(&identity)).await?)
    }

    /// The kubeconfig file of user `admin` of group `system:masters`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Writes a kubeconfig file with this bearer token and returns its path. `user_name` names the entry
    /// and the file.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn kubeconfig_for_token(&self, user_name: &str, token: &str) -> Result<PathBuf> {
        self.write_kubeconfig(user_name, &Credentials::Token(token))
    }

    /// Writes a kubeconfig file with a certificate for this user and group, and returns its path.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn kubeconfig_for_user(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let identity = self.certificates.cluster.client(user, group)?;
        self.write_kubeconfig(user, &Credentials::Certificate(&identity))
    }

    fn write_kubeconfig(&self, user: &str, credentials: &Credentials<'_>) -> Result<PathBuf> {
        // The end tells users apart, and a whole name can be longer than that of a file.
        let name = user.replace(['/', ':'], "-");
        let begin = name.ceil_char_boundary(name.len().saturating_sub(LONGEST_FILE));
        let path = self.folder.subfolder("kubeconfigs")?.join(name.get(begin..).unwrap_or(&name));
        self.access.write(&path, user, credentials)?;
        Ok(path)
    }

    /// The authority that issued the API server's certificate and whose client certificates it accepts.
    pub fn pki(&self) -> &Pki {
        &self.certificates.cluster
    }

    /// The certificate file of [`ControlPlane::pki`].
    pub fn ca(&self) -> &Path {
        &self.certificates.cluster_ca
    }

    /// The authority behind the front proxy's certificates.
    pub fn front_proxy_pki(&self) -> &Pki {
        &self.certificates.front_proxy
    }

    /// The certificate file of [`ControlPlane::front_proxy_pki`].
    pub fn front_proxy_ca(&self) -> &Path {
        &self.certificates.front_proxy_ca
    }

    /// The certificate, of the allowed name `front-proxy-client`, with which kube-apiserver calls
    /// aggregated servers.
    pub fn front_proxy_client(&self) -> &IdentityFiles {
        &self.certificates.front_proxy_client
    }

    /// The addresses that pods get, `127.X.0.0/16`, or `10.X.0.0/16` after
    /// [`Builder::pods_in_endpoint_slices`]: no other control plane of this user on this machine has them.
    pub fn pod_network(&self) -> String {
        format!("{}.{}.0.0/16", self.pod_range, self.network.number)
    }

    /// kube-apiserver.
    pub fn apiserver(&self) -> &Component {
        &self.apiserver
    }

    /// The store of kube-apiserver.
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// kube-controller-manager.
    pub fn controller_manager(&self) -> &Component {
        &self.controller_manager
    }

    /// kube-scheduler.
    pub fn scheduler(&self) -> &Component {
        &self.scheduler
    }

    /// The stand-in for the kubelets.
    pub fn kwok(&self) -> &Component {
        &self.kwok
    }

    /// The programs that it runs.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The folder with all its files.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The folder with the logs, `COMPONENT.log`, to which a test may add its own.
    pub fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// The audit log: one JSON object a line, written at about the time at which the answer is sent, before
    /// or after. See [`ControlPlane::audit_events`].
    pub fn audit_log(&self) -> &Path {
        &self.audit_log
    }

    /// Keeps the files when it stops.
    pub fn keep(&self) {
        self.folder.keep();
    }

    /// Lets everything live on after the end of this process, its files and these `others` too.
    ///
    /// Writes the file `stop.sh` into its folder, which ends the processes and removes the folder, and
    /// returns its path.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn leave_running(&self, others: &[&Process]) -> Result<PathBuf> {
        self.keep();
        let own = self.components().map(Component::process);
        let mut pids = Vec::new();
        for process in others.iter().chain(&own) {
            process.leave_running();
            pids.extend(process.pid().map(|pid| pid.to_string()));
        }
        let pids = pids.join(" ");
        let script = self.folder.path().join("stop.sh");
        write(&script, &format!("#!/bin/sh\nkill -KILL {pids}\nsleep 1\nrm -rf \"$(dirname \"$0\")\"\n"))?;
        Ok(script)
    }

    /// Stops everything and removes the files, unless they are to be kept.
    ///
    /// Dropping it does the same, but reports nothing.
    ///
    /// # Errors
    ///
    /// Fails when a process cannot be killed or the folder cannot be removed.
    #[allow(clippy::unused_async, reason = "callers should not depend on how it stops")]
    pub async fn stop(self) -> Result<()> {
        for component in self.components() {
            component.stop()?;
        }
        let folder = self.folder.path().to_owned();
        let kept = self.folder.is_kept();
        drop(self);
        if kept || !folder.exists() { Ok(()) } else { Err(Error::FolderLeft { path: folder }) }
    }

    /// In the order in which they are stopped.
    fn components(&self) -> [&Component; 5] {
        [&self.kwok, &self.scheduler, &self.controller_manager, &self.apiserver, self.etcd.component()]
    }
}

fn client(user: &str, config: kube::Config) -> Result<kube::Client> {
    machinery_client::client(config)
        .map_err(|error| Error::ClientConfig { user: user.to_owned(), source: error.into() })
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ControlPlane")
            .field("server", &self.server())
            .field("folder", &self.folder.path())
            .finish_non_exhaustive()
    }
}
