use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::Actors;
use crate::apiserver::{ApiServer, Certificates};
use crate::control_plane::Parts;
use crate::port::Reservation;
use crate::{Binaries, ControlPlane, Etcd, Folder, Program, Result};

/// The second numbers of the networks of pod addresses, 127.X.0.0/16: one for each control plane on the
/// machine.
const NETWORKS: Range<u16> = 100..228;

/// Description of a control plane, made by [`ControlPlane::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    nodes: usize,
    feature_gates: Vec<String>,
    pub(crate) runtime_config: Vec<String>,
    pub(crate) apiserver_args: Vec<String>,
    pub(crate) controller_manager_args: Vec<String>,
    pub(crate) scheduler_args: Vec<String>,
    pub(crate) pod_range: u8,
    pub(crate) pod_ready_after: Range<Duration>,
    pub(crate) pod_gone_after: Range<Duration>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: 3,
            feature_gates: Vec::new(),
            runtime_config: Vec::new(),
            apiserver_args: Vec::new(),
            controller_manager_args: Vec::new(),
            scheduler_args: Vec::new(),
            pod_range: 127,
            pod_ready_after: Duration::from_secs(1)..Duration::from_secs(2),
            pod_gone_after: Duration::from_secs(1)..Duration::from_millis(1200),
        }
    }
}

impl Builder {
    /// Sets the number of nodes at the start. By default 3.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Feature gates, for every component of Kubernetes.
    #[must_use]
    pub fn feature_gates(mut self, gates: &[(&str, bool)]) -> Self {
        self.feature_gates.extend(gates.iter().map(|(name, on)| format!("{name}={on}")));
        self
    }

    /// Turns API versions on or off: `lifecycle.k8s.io/v1alpha1=true`.
    #[must_use]
    pub fn runtime_config(mut self, settings: &[&str]) -> Self {
        self.runtime_config.extend(settings.iter().map(|&setting| setting.to_owned()));
        self
    }

    /// Further arguments of kube-apiserver.
    #[must_use]
    pub fn apiserver_args(mut self, arguments: &[&str]) -> Self {
        self.apiserver_args.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Further arguments of kube-controller-manager.
    #[must_use]
    pub fn controller_manager_args(mut self, arguments: &[&str]) -> Self {
        self.controller_manager_args.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Further arguments of kube-scheduler.
    #[must_use]
    pub fn scheduler_args(mut self, arguments: &[&str]) -> Self {
        self.scheduler_args.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Gives pods addresses in 10.0.0.0/8 in place of 127.0.0.0/8. Nobody can listen there, but
    /// EndpointSlices, which take no loopback addresses, list the pods.
    #[must_use]
    pub fn pods_in_endpoint_slices(mut self) -> Self {
        self.pod_range = 10;
        self
    }

    /// Sets the time from a pod's scheduling until it is ready, at random within the range. By default 1 to
    /// 2 s.
    ///
    /// A pod's annotation `controlplane.test/running-after: 10s` overrides it.
    #[must_use]
    pub fn pod_ready_after(mut self, range: Range<Duration>) -> Self {
        self.pod_ready_after = range;
        self
    }

    /// Sets the time from a pod's deletion until it is gone, at random within the range. By default 1 to 1.2
    /// s.
    ///
    /// A pod's annotation `controlplane.test/gone-after: 10s` overrides it.
    #[must_use]
    pub fn pod_gone_after(mut self, range: Range<Duration>) -> Self {
        self.pod_gone_after = range;
        self
    }

    pub(crate) fn feature_gate_argument(&self) -> Option<String> {
        (!self.feature_gates.is_empty()).then(|| format!("--feature-gates={}", self.feature_gates.join(",")))
    }

    /// Starts it, and waits until pods can be created and will run.
    ///
    /// A few seconds on a machine with nothing else to do; minutes are allowed on a busy one. The programs
    /// are built first when they are not found: see [`Binaries::find_or_build`].
    ///
    /// # Errors
    ///
    /// Fails when a program is missing, or a component ends or does not become ready. All that was started
    /// is stopped; the files stay.
    pub async fn start(self) -> Result<ControlPlane> {
        // Somebody else's choice of a provider serves as well.
        rustls::crypto::ring::default_provider().install_default().ok();

        let binaries = Binaries::find_or_build_in_background(&Program::ALL).await?;
        let folder = Arc::new(Folder::new("controlplane")?);
        let started = self.start_in(binaries, Arc::clone(&folder)).await;
        if started.is_err() {
            folder.keep();
        }
        started
    }

    async fn start_in(&self, binaries: Binaries, folder: Arc<Folder>) -> Result<ControlPlane> {
        let network = Reservation::take("network", NETWORKS)?;
        let certificates = Certificates::make(folder.subfolder("pki")?)?;
        let etcd = Etcd::spawn(&binaries, Arc::clone(&folder), false, &[])?;
        etcd.component().ready().await?;
        let apiserver = ApiServer::spawn(&binaries, &folder, &certificates, &etcd, self).await?;
        apiserver.component.ready().await?;

        let actors = Actors {
            binaries: &binaries,
            folder: &folder,
            certificates: &certificates,
            access: &apiserver.access,
            options: self,
        };
        let controller_manager = actors.controller_manager()?;
        let scheduler = actors.scheduler()?;
        let kwok = actors.kwok(network.number)?;
        let control_plane = ControlPlane::new(Parts {
            kwok,
            scheduler,
            controller_manager,
            apiserver,
            etcd,
            certificates,
            network,
            pod_range: self.pod_range,
            binaries,
            folder,
        });
        control_plane.controller_manager().ready().await?;
        control_plane.scheduler().ready().await?;
        // Pods need their namespace's service account, which a controller makes.
        control_plane.service_account_exists("default", "default").await?;
        control_plane.add_nodes(self.nodes).await?;
        Ok(control_plane)
    }
}
