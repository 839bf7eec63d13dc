//! The installed system: manifests, API server and controller on a real control plane.

mod gateway;
mod install;
mod parts;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::bail;
use controlplane::{
    Balancer, Builder, ControlPlane, Etcd, IdentityFiles, Output, Process, free_port, output_of,
};
use kube::Client;

use crate::{FakeClock, programs::Programs};
pub use gateway::Gateway;
use install::{account, apply, install, serving_certificate};

/// The namespace of the manifests.
const NAMESPACE: &str = "evacuation-system";
/// Component whose process plays the built-in responders.
const BUILT_IN_RESPONDERS: &str = "built-in-responders";
/// Maximum time of a start on a busy machine.
const START: Duration = Duration::from_mins(2);

/// Storage of the API server's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// An etcd of its own.
    Etcd,
    /// The embedded store.
    Embedded,
}

/// Choices for a [`Platform`].
#[derive(Debug)]
pub struct PlatformOptions {
    /// The control plane below.
    pub control_plane: Builder,
    /// Storage of the API server's objects.
    pub storage: Storage,
    /// Further arguments of the API server's etcd.
    pub etcd_args: Vec<String>,
    /// Further arguments of the API servers.
    pub apiserver_args: Vec<String>,
    /// Number of API servers. More than one need an etcd.
    pub apiservers: usize,
    /// Further arguments of the controllers.
    pub controller_args: Vec<String>,
    /// Number of controllers, one of which leads.
    pub controllers: usize,
    /// Components of the deployment whose access is applied. `built-in-responders` starts their process, too.
    pub components: Vec<String>,
    /// Gives the processes clocks that a test can set: see [`Platform::clocks`].
    pub fake_clocks: bool,
    /// Configuration of the gateway. Without one there is no gateway.
    pub gateway: Option<String>,
    /// Number of gateways, if there is one.
    pub gateways: usize,
    /// Further arguments of the gateways.
    pub gateway_args: Vec<String>,
    /// `timeoutSeconds` of the gateway's webhooks. 5 unless set: the shipped 1 lets calls pass unasked on a
    /// busy machine, which is no matter of most tests.
    pub gateway_seconds: i32,
}

impl Default for PlatformOptions {
    fn default() -> Self {
        Self {
            control_plane: ControlPlane::builder(),
            storage: Storage::Etcd,
            etcd_args: Vec::new(),
            apiserver_args: Vec::new(),
            apiservers: 1,
            controller_args: Vec::new(),
            controllers: 1,
            components: Vec::new(),
            fake_clocks: false,
            gateway: None,
            gateways: 1,
            gateway_args: Vec::new(),
            gateway_seconds: 5,
        }
    }
}

/// The wall clocks of the processes. The test's own clock is the right one.
#[derive(Debug)]
pub struct Clocks {
    /// The clock of all controllers.
    pub controllers: FakeClock,
    /// The clock of each API server.
    pub apiservers: Vec<FakeClock>,
}

impl Clocks {
    async fn new(apiservers: usize) -> anyhow::Result<Self> {
        let controllers = FakeClock::new().await?;
        let mut clocks = Self { controllers, apiservers: Vec::new() };
        for _ in 0..apiservers {
            clocks.apiservers.push(FakeClock::new().await?);
        }
        Ok(clocks)
    }
}

/// The installed system. Everything stops when it is dropped.
#[derive(Debug)]
pub struct Platform {
    // Dropped in this order: a client before its server.
    gateway: Option<Gateway>,
    controllers: Vec<Process>,
    built_in_responders: Option<Process>,
    metrics_ports: Vec<u16>,
    balancer: Option<Balancer>,
    apiservers: Vec<Process>,
    apiserver_ports: Vec<u16>,
    etcd: Option<Etcd>,
    control_plane: ControlPlane,
    programs: Programs,
    clocks: Option<Clocks>,
}

impl Platform {
    /// Starts everything and waits until an Evacuation can be created.
    ///
    /// # Errors
    ///
    /// Names the part that did not start, and the reason.
    pub async fn start(options: PlatformOptions) -> anyhow::Result<Self> {
        let programs = Programs::find()?;
        let (control_plane, etcd) = tokio::join!(options.control_plane.start(), async {
            match options.storage {
                Storage::Etcd => Etcd::start_with(&options.etcd_args).await.map(Some),
                Storage::Embedded => Ok(None),
            }
        });
        let (control_plane, etcd) = (control_plane?, etcd?);
        let clocks = if options.fake_clocks { Some(Clocks::new(options.apiservers).await?) } else { None };
        let apiserver_ports = (0..options.apiservers).map(|_| free_port()).collect::<Result<Vec<_>, _>>()?;
        // With several API servers, the balancer takes the place of the Service.
        let balancer = match &*apiserver_ports {
            [_] => None,
            ports => Some(Balancer::start(ports)?),
        };
        let port = balancer.as_ref().map(Balancer::port).or(apiserver_ports.first().copied());
        install(&control_plane, port.unwrap_or_default()).await?;
        for component in &options.components {
            apply(&control_plane, &format!("deploy/components/{component}/access")).await?;
        }
        let mut platform = Self {
            gateway: None,
            controllers: Vec::new(),
            built_in_responders: None,
            metrics_ports: Vec::new(),
            balancer,
            apiservers: Vec::new(),
            apiserver_ports,
            etcd,
            control_plane,
            programs,
            clocks,
        };
        // Each is written once: a process that starts must not find it half written.
        let serving = serving_certificate(&platform.control_plane)?;
        let kubeconfig = account(&platform.control_plane, "evacuation-apiserver").await?;
        for number in 0..options.apiservers {
            platform.start_apiserver(number, &serving, &kubeconfig, &options.apiserver_args)?;
        }
        let kubeconfig = account(&platform.control_plane, "evacuation-controller").await?;
        // As the gateway's component does.
        let reports = options.gateway.as_ref().map(|_| "--report-unasked".to_owned());
        let controller_args: Vec<String> = options.controller_args.iter().cloned().chain(reports).collect();
        for number in 0..options.controllers {
            platform.start_controller(number, &kubeconfig, &controller_args)?;
        }
        if options.components.iter().any(|component| component == BUILT_IN_RESPONDERS) {
            platform.spawn_built_in_responders().await?;
        }
        platform.available().await?;
        if let Some(ended) = platform.controllers.iter().find(|process| !process.is_running()) {
            bail!("{} ended: {}", ended.name(), ended.log().unwrap_or_default());
        }
        if let Some(configuration) = &options.gateway {
            let PlatformOptions { gateways, ref gateway_args, gateway_seconds, .. } = options;
            platform.start_gateway(configuration, gateways, gateway_args, gateway_seconds).await?;
        }
        Ok(platform)
    }

    fn start_apiserver(
        &mut self,
        number: usize,
        serving: &IdentityFiles,
        kubeconfig: &Path,
        arguments: &[String],
    ) -> anyhow::Result<()> {
        let port = self.apiserver_ports.get(number).copied().unwrap_or_default();
        let clock = self.clocks.as_ref().and_then(|clocks| clocks.apiservers.get(number));
        let mut command = Command::new(self.programs.binary("evacuation-apiserver"));
        command
            .envs(clock.into_iter().flat_map(FakeClock::environment))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(format!("--tls-cert-file={}", serving.certificate.display()))
            .arg(format!("--tls-private-key-file={}", serving.key.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(arguments);
        match &self.etcd {
            Some(etcd) => command.arg(format!("--etcd-servers={}", etcd.endpoint())),
            None => command.arg("--storage=embedded").arg(format!(
                "--data-dir={}",
                self.control_plane.folder().subfolder("evacuation-store")?.display()
            )),
        };
        let name = format!("evacuation-apiserver-{number}");
        self.apiservers.push(Process::spawn(name, command, &self.control_plane.logs())?);
        Ok(())
    }

    fn start_controller(
        &mut self,
        number: usize,
        kubeconfig: &Path,
        arguments: &[String],
    ) -> anyhow::Result<()> {
        let name = format!("evacuation-controller-{number}");
        let metrics_port = free_port()?;
        let mut command = self.controller_command(&name, kubeconfig, metrics_port);
        command.arg(format!("--push-allow-cidr={}", self.control_plane.pod_network())).args(arguments);
        self.metrics_ports.push(metrics_port);
        self.controllers.push(Process::spawn(name, command, &self.control_plane.logs())?);
        Ok(())
    }

    async fn spawn_built_in_responders(&mut self) -> anyhow::Result<()> {
        let name = "evacuation-built-in-responders";
        let kubeconfig = account(&self.control_plane, name).await?;
        let mut command = self.controller_command(name, &kubeconfig, free_port()?);
        command.arg("--feature-set=built-in-responders");
        self.built_in_responders =
            Some(Process::spawn(name.to_owned(), command, &self.control_plane.logs())?);
        Ok(())
    }

    /// The controller's program, as a process of that name.
    fn controller_command(&self, name: &str, kubeconfig: &Path, metrics_port: u16) -> Command {
        let clock = self.clocks.as_ref().map(|clocks| &clocks.controllers);
        let mut command = Command::new(self.programs.binary("evacuation-controller"));
        command
            .envs(clock.into_iter().flat_map(FakeClock::environment))
            // The identity in the lease begins with it.
            .env("HOSTNAME", name)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--lease-namespace={NAMESPACE}"))
            .arg(format!("--metrics-address=127.0.0.1:{metrics_port}"));
        command
    }

    /// A client with all rights, which retries nothing by itself.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be made.
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

    /// The process of the first API server.
    pub fn apiserver(&self) -> &Process {
        self.apiservers.first().unwrap_or_else(|| unreachable!("a platform has an API server"))
    }

    /// The processes of the API servers.
    pub fn apiservers(&self) -> &[Process] {
        &self.apiservers
    }

    /// The ports of the API servers.
    pub fn apiserver_ports(&self) -> &[u16] {
        &self.apiserver_ports
    }

    /// The balancer in front of the API servers; none in front of a single one.
    pub fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_ref()
    }

    /// The processes of the controllers.
    pub fn controllers(&self) -> &[Process] {
        &self.controllers
    }

    /// The process of the built-in responders; none unless the options name their component.
    pub fn built_in_responders(&self) -> Option<&Process> {
        self.built_in_responders.as_ref()
    }

    /// The gateway; none unless the options ask for it.
    pub fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref()
    }

    /// The port of each controller's metrics and probes.
    pub fn metrics_ports(&self) -> &[u16] {
        &self.metrics_ports
    }

    /// The clocks of the processes; none unless the options ask for fake ones.
    pub fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    /// The folder of the project's programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Runs kubectl with the project's plugins on PATH, as `admin`.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be started or does not end; a failure of its own is in the [`Output`].
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.kubectl_command();
        command.args(arguments);
        Ok(output_of("kubectl", command).await?)
    }

    /// A kubectl command with the project's plugins on PATH, to which arguments can be added.
    pub fn kubectl_command(&self) -> Command {
        self.control_plane.kubectl_command(&[self.programs.folder()])
    }

    /// The same on a terminal, which script(1) makes: a part of every Debian and of macOS. `starter` is
    /// `exec`, or a command that starts another.
    pub fn kubectl_on_terminal(&self, starter: &str, arguments: &str) -> Command {
        let kubectl = self.kubectl_command();
        let mut command = Command::new("script");
        for (key, value) in kubectl.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        let program = kubectl.get_program().to_string_lossy();
        let inner = format!("stty rows 40 cols 120; {starter} {program} {arguments}");
        command.env("TERM", "xterm").args(["-qec", &inner, "/dev/null"]);
        command
    }

    /// Keeps the processes and files when this is dropped.
    ///
    /// # Errors
    ///
    /// Fails when a process could not be released.
    pub fn leave_running(&self) -> anyhow::Result<PathBuf> {
        let mut processes: Vec<_> = self.apiservers.iter().chain(&self.controllers).collect();
        processes.extend(&self.built_in_responders);
        processes.extend(self.gateway.iter().flat_map(Gateway::processes));
        if let Some(etcd) = &self.etcd {
            processes.push(etcd.component().process());
            etcd.folder().keep();
        }
        Ok(self.control_plane.leave_running(&processes)?)
    }
}
