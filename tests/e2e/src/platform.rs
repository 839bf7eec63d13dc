//! The installed system: manifests, API server and controller on a real control plane.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use controlplane::{
    Builder, ControlPlane, Etcd, IdentityFiles, Output, Process, eventually, free_port, output_of,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::json;

use crate::{
    kubeconfig::write_kubeconfig,
    programs::{Programs, root},
};

/// The namespace of the manifests.
const NAMESPACE: &str = "evacuation-system";
/// The name that the serving certificate is for: the kube-apiserver asks for the Service by it.
const SERVICE: &str = "evacuation-apiserver.evacuation-system.svc";
/// How long a start may take on a busy machine.
const START: Duration = Duration::from_mins(2);

/// Where the API server keeps its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// An etcd of its own.
    Etcd,
    /// The embedded store.
    Embedded,
}

/// What can be chosen of a [`Platform`].
#[derive(Debug)]
pub struct PlatformOptions {
    /// The control plane below.
    pub control_plane: Builder,
    /// Where the API server keeps its objects.
    pub storage: Storage,
    /// Further arguments of the controller.
    pub controller_args: Vec<String>,
    /// How many controllers run; one of them leads.
    pub controllers: usize,
    /// The environment of the controllers, beside this process' own.
    pub controller_env: Vec<(String, OsString)>,
    /// The same of the API server.
    pub apiserver_env: Vec<(String, OsString)>,
}

impl Default for PlatformOptions {
    fn default() -> Self {
        Self {
            control_plane: ControlPlane::builder(),
            storage: Storage::Etcd,
            controller_args: Vec::new(),
            controllers: 1,
            controller_env: Vec::new(),
            apiserver_env: Vec::new(),
        }
    }
}

/// The installed system. Everything stops when it is dropped.
#[derive(Debug)]
pub struct Platform {
    // Dropped in this order: whoever asks goes before whom it asks.
    controllers: Vec<Process>,
    apiserver: Process,
    etcd: Option<Etcd>,
    control_plane: ControlPlane,
    programs: Programs,
    apiserver_port: u16,
}

impl Platform {
    /// Starts everything and waits until an Evacuation can be created.
    ///
    /// # Errors
    ///
    /// What did not start, and why.
    pub async fn start(options: PlatformOptions) -> anyhow::Result<Self> {
        let programs = Programs::find()?;
        let (control_plane, etcd) = tokio::join!(options.control_plane.start(), async {
            match options.storage {
                Storage::Etcd => Etcd::start().await.map(Some),
                Storage::Embedded => Ok(None),
            }
        });
        let (control_plane, etcd) = (control_plane?, etcd?);
        let apiserver_port = free_port()?;
        install(&control_plane, apiserver_port).await?;
        let serving = serving_certificate(&control_plane)?;
        let mut command = Command::new(programs.binary("evacuation-apiserver"));
        command
            .envs(options.apiserver_env)
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={apiserver_port}"))
            .arg(format!("--tls-cert-file={}", serving.certificate.display()))
            .arg(format!("--tls-private-key-file={}", serving.key.display()))
            .arg(format!(
                "--kubeconfig={}",
                account(&control_plane, "evacuation-apiserver").await?.display()
            ));
        match &etcd {
            Some(etcd) => command.arg(format!("--etcd-servers={}", etcd.endpoint())),
            None => command.arg("--storage=embedded").arg(format!(
                "--data-dir={}",
                control_plane.folder().subfolder("evacuation-store")?.display()
            )),
        };
        let apiserver = Process::spawn("evacuation-apiserver", command, &control_plane.logs())?;
        let mut platform =
            Self { controllers: Vec::new(), apiserver, etcd, control_plane, programs, apiserver_port };
        // Written once: a controller that starts must not find it half written.
        let kubeconfig = account(&platform.control_plane, "evacuation-controller").await?;
        for number in 0..options.controllers {
            platform.start_controller(
                number,
                &kubeconfig,
                &options.controller_args,
                &options.controller_env,
            )?;
        }
        platform.available().await?;
        if let Some(ended) = platform.controllers.iter().find(|process| !process.is_running()) {
            bail!("{} ended: {}", ended.name(), ended.log().unwrap_or_default());
        }
        Ok(platform)
    }

    fn start_controller(
        &mut self,
        number: usize,
        kubeconfig: &Path,
        arguments: &[String],
        environment: &[(String, OsString)],
    ) -> anyhow::Result<()> {
        let mut command = Command::new(self.programs.binary("evacuation-controller"));
        command
            .envs(environment.iter().cloned())
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--lease-namespace={NAMESPACE}"))
            .arg(format!("--metrics-address=127.0.0.1:{}", free_port()?))
            .arg(format!("--push-allow-cidr={}", self.control_plane.pod_network()))
            .args(arguments);
        let name = format!("evacuation-controller-{number}");
        self.controllers.push(Process::spawn(name, command, &self.control_plane.logs())?);
        Ok(())
    }

    /// Waits until the API is available and some controller leads.
    ///
    /// # Errors
    ///
    /// When that takes too long, or a process has ended.
    pub async fn available(&self) -> anyhow::Result<()> {
        let services = api_services(self.client()?);
        eventually(START, "the APIService is available", || async {
            if !self.apiserver.is_running() {
                bail!("the API server ended: {}", self.apiserver.log().unwrap_or_default());
            }
            let service = services.get("v1alpha1.evacuation.dev").await?;
            let conditions = service.data.pointer("/status/conditions").cloned().unwrap_or_default();
            let available = conditions.as_array().into_iter().flatten().any(|condition| {
                condition.get("type") == Some(&json!("Available"))
                    && condition.get("status") == Some(&json!("True"))
            });
            if available { Ok(()) } else { bail!("conditions {conditions}") }
        })
        .await?;
        if self.controllers.is_empty() {
            return Ok(());
        }
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
            Api::namespaced(self.client()?, NAMESPACE);
        eventually(START, "a controller leads", || async {
            let leases = leases.list(&kube::api::ListParams::default()).await?;
            let holder = leases.items.into_iter().filter_map(|lease| lease.spec?.holder_identity);
            if holder.into_iter().any(|holder| !holder.is_empty()) {
                Ok(())
            } else {
                bail!("nobody holds the lease")
            }
        })
        .await?;
        Ok(())
    }

    /// A client with all rights, which retries nothing by itself.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(self.control_plane.client()?)
    }

    /// The control plane below.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// The etcd of the API server; none with the embedded store.
    pub fn etcd(&self) -> Option<&Etcd> {
        self.etcd.as_ref()
    }

    /// The process of the API server.
    pub fn apiserver(&self) -> &Process {
        &self.apiserver
    }

    /// The port of the API server.
    pub fn apiserver_port(&self) -> u16 {
        self.apiserver_port
    }

    /// The processes of the controllers.
    pub fn controllers(&self) -> &[Process] {
        &self.controllers
    }

    /// Our programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Runs kubectl with our plugins on PATH, as `admin`.
    ///
    /// # Errors
    ///
    /// When it cannot be started or does not end; a failure of its own is in the [`Output`].
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.kubectl_command();
        command.args(arguments);
        Ok(output_of("kubectl", command).await?)
    }

    /// A kubectl command with our plugins on PATH, to which arguments can be added.
    pub fn kubectl_command(&self) -> Command {
        self.control_plane.kubectl_command(&[self.programs.folder()])
    }

    /// Keeps the processes and files when this is dropped.
    ///
    /// # Errors
    ///
    /// When a process could not be let go.
    pub fn leave_running(&self) -> anyhow::Result<PathBuf> {
        let mut processes = vec![&self.apiserver];
        processes.extend(&self.controllers);
        if let Some(etcd) = &self.etcd {
            processes.push(etcd.component().process());
            etcd.folder().keep();
        }
        Ok(self.control_plane.leave_running(&processes)?)
    }
}

/// Applies the manifests for processes on the host, and tells the APIService the port and the CA.
async fn install(control_plane: &ControlPlane, port: u16) -> anyhow::Result<()> {
    let overlay = root().join("deploy/overlays/host");
    let overlay = overlay.display().to_string();
    let applied = control_plane.kubectl(&["apply", "-k", &overlay]).await?;
    if !applied.success() {
        bail!("the manifests were not applied: {}", applied.stderr);
    }
    let ca = STANDARD.encode(control_plane.pki().ca_pem());
    let patch = json!({"spec": {"service": {"port": port}, "caBundle": ca}});
    api_services(control_plane.client()?)
        .patch("v1alpha1.evacuation.dev", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .context("the APIService was not patched")?;
    Ok(())
}

fn serving_certificate(control_plane: &ControlPlane) -> anyhow::Result<IdentityFiles> {
    let identity = control_plane.pki().serving(&[SERVICE, "localhost", "127.0.0.1"])?;
    let folder = control_plane.folder().subfolder("evacuation-pki")?;
    Ok(identity.write(&folder, "apiserver")?)
}

/// A kubeconfig of one of the manifests' service accounts.
async fn account(control_plane: &ControlPlane, name: &str) -> anyhow::Result<PathBuf> {
    let token = control_plane.service_account_token(NAMESPACE, name, None).await?;
    write_kubeconfig(control_plane, name, &token, NAMESPACE)
}

fn api_services(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "apiservices"))
}
