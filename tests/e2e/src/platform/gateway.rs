//! The gateway as a part of the installed system, with the webhooks of the shipped manifest.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Context;
use controlplane::{Balancer, ControlPlane, Identity, IdentityFiles, Process, free_port};
use k8s_openapi::{ByteString, api::admissionregistration::v1::ValidatingWebhookConfiguration};
use kube::{Api, Client, api::PostParams};

use super::{
    Platform, START,
    install::{account, apply},
};
use crate::programs::root;

/// Name of the certificate's files.
const NAME: &str = "gateway";

/// The replicas of a running gateway.
#[derive(Debug)]
pub struct Gateway {
    processes: Vec<Process>,
    metrics_ports: Vec<u16>,
    configuration: PathBuf,
    folder: PathBuf,
    /// In the place of the Service.
    _balancer: Balancer,
}

impl Gateway {
    /// The processes of the replicas.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Ends the replica at that place as a Deployment does, and starts it again.
    ///
    /// # Errors
    ///
    /// Fails when it is not ready in time.
    pub async fn restart(&self, place: usize) -> anyhow::Result<()> {
        let (process, port) =
            self.processes.get(place).zip(self.metrics_ports.get(place)).context("no such replica")?;
        process.restart().await?;
        process.wait_for_http(START, *port, "/readyz").await?;
        Ok(())
    }

    /// The file of its configuration, which it reads again every 5 s.
    pub fn configuration(&self) -> &PathBuf {
        &self.configuration
    }

    /// Replaces the serving certificate, which the gateway reads again by itself.
    ///
    /// # Errors
    ///
    /// Fails when the files cannot be written.
    pub fn serve_with(&self, identity: &Identity) -> anyhow::Result<()> {
        identity.write(&self.folder, NAME)?;
        Ok(())
    }

    /// The metrics of all replicas as text.
    ///
    /// # Errors
    ///
    /// Fails when one does not answer.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for port in &self.metrics_ports {
            let url = format!("http://127.0.0.1:{port}/metrics");
            text += &reqwest::get(url).await?.error_for_status()?.text().await?;
        }
        Ok(text)
    }

    /// The sum of the counters of that name whose labels include all of these, such as `caller="job"`.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer.
    pub async fn count(&self, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
        let text = self.metrics().await?;
        let lines = text.lines().filter(|line| line.starts_with(&format!("evacuation_gateway_{name}_total")));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

impl Platform {
    /// Starts so many gateways with that configuration, and applies their webhooks.
    pub(super) async fn start_gateway(&mut self, configuration: &str, replicas: usize) -> anyhow::Result<()> {
        let control_plane = &self.control_plane;
        apply(control_plane, "deploy/overlays/host-gateway").await?;
        let folder = control_plane.folder().subfolder("evacuation-gateway")?;
        let path = folder.join("gateway.yaml");
        fs::write(&path, configuration)?;
        let identity = control_plane.pki().serving(&["localhost", "127.0.0.1"])?;
        let serving = identity.write(&folder, NAME)?;
        let kubeconfig = account(control_plane, "evacuation-gateway").await?;
        let (mut processes, mut metrics_ports, mut ports) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..replicas {
            let (port, metrics_port) = (free_port()?, free_port()?);
            let name = format!("evacuation-gateway-{number}");
            let mut command = Command::new(self.programs.binary("evacuation-gateway"));
            command
                .env("HOSTNAME", &name)
                .arg(format!("--kubeconfig={}", kubeconfig.display()))
                .arg(format!("--config={}", path.display()))
                .arg(format!("--address=127.0.0.1:{port}"))
                .arg(format!("--metrics-address=127.0.0.1:{metrics_port}"))
                .arg("--shutdown-delay-seconds=1")
                .args(tls_arguments(&serving));
            let process = Process::spawn(name, command, &control_plane.logs())?;
            process.wait_for_http(START, metrics_port, "/readyz").await?;
            processes.push(process);
            metrics_ports.push(metrics_port);
            ports.push(port);
        }
        let balancer = Balancer::start(&ports)?;
        apply_webhooks(control_plane, self.client()?, balancer.port()).await?;
        self.gateway =
            Some(Gateway { processes, metrics_ports, configuration: path, folder, _balancer: balancer });
        Ok(())
    }
}

fn tls_arguments(serving: &IdentityFiles) -> [String; 2] {
    [
        format!("--tls-cert-file={}", serving.certificate.display()),
        format!("--tls-private-key-file={}", serving.key.display()),
    ]
}

/// Applies the shipped webhooks, with the URL of the process in the place of the Service.
async fn apply_webhooks(control_plane: &ControlPlane, client: Client, port: u16) -> anyhow::Result<()> {
    let path = root().join("deploy/components/gateway/webhooks.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut configuration: ValidatingWebhookConfiguration = serde_saphyr::from_str(&text)?;
    for webhook in configuration.webhooks.iter_mut().flatten() {
        let config = &mut webhook.client_config;
        let path = config.service.take().and_then(|service| service.path).unwrap_or_default();
        config.url = Some(format!("https://127.0.0.1:{port}{path}"));
        config.ca_bundle = Some(ByteString(control_plane.pki().ca_pem().into_bytes()));
    }
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    api.create(&PostParams::default(), &configuration).await.context("the webhooks were not applied")?;
    Ok(())
}
