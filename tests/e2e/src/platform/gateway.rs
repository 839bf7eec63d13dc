//! The gateway as a part of the installed system, with the webhooks of the shipped manifest.

use std::{fs, path::PathBuf, process::Command};

use anyhow::Context;
use controlplane::{Balancer, ControlPlane, Identity, IdentityFiles, Process, eventually, free_port};
use k8s_openapi::{ByteString, api::admissionregistration::v1::ValidatingWebhookConfiguration};
use kube::{Api, Client, ResourceExt, api::PostParams};

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
    /// In the place of the Service: the port of decisions, and that of warnings.
    balancer: Balancer,
    _warnings: Balancer,
}

impl Gateway {
    /// The processes of the replicas.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Ends the replica at that place as a Deployment does, and starts it again. Meanwhile new connections go
    /// to the others, as a Service sends them.
    ///
    /// # Errors
    ///
    /// Fails when it is not ready in time.
    pub async fn restart(&self, place: usize) -> anyhow::Result<()> {
        let (process, port) =
            self.processes.get(place).zip(self.metrics_ports.get(place)).context("no such replica")?;
        self.balancer.without(place);
        process.restart().await?;
        process.wait_for_http(START, *port, "/readyz").await?;
        self.balancer.all();
        Ok(())
    }

    /// The port at which all replicas together serve the webhooks.
    pub fn port(&self) -> u16 {
        self.balancer.port()
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
    /// Starts so many gateways with that configuration, and applies their webhooks with that timeout.
    pub(super) async fn start_gateway(
        &mut self,
        configuration: &str,
        replicas: usize,
        arguments: &[String],
        seconds: i32,
    ) -> anyhow::Result<()> {
        let control_plane = &self.control_plane;
        apply(control_plane, "deploy/overlays/host-gateway").await?;
        let folder = control_plane.folder().subfolder("evacuation-gateway")?;
        let path = folder.join("gateway.yaml");
        fs::write(&path, configuration)?;
        let identity = control_plane.pki().serving(&["localhost", "127.0.0.1"])?;
        let serving = identity.write(&folder, NAME)?;
        let kubeconfig = account(control_plane, "evacuation-gateway").await?;
        let (mut processes, mut metrics_ports) = (Vec::new(), Vec::new());
        let (mut ports, mut warnings_ports) = (Vec::new(), Vec::new());
        for number in 0..replicas {
            let (port, warnings_port, metrics_port) = (free_port()?, free_port()?, free_port()?);
            let name = format!("evacuation-gateway-{number}");
            let mut command = Command::new(self.programs.binary("evacuation-gateway"));
            command
                .env("HOSTNAME", &name)
                .arg(format!("--kubeconfig={}", kubeconfig.display()))
                .arg(format!("--config={}", path.display()))
                .arg(format!("--address=127.0.0.1:{port}"))
                .arg(format!("--warnings-address=127.0.0.1:{warnings_port}"))
                .arg(format!("--metrics-address=127.0.0.1:{metrics_port}"))
                .arg("--shutdown-delay-seconds=1")
                .args(tls_arguments(&serving))
                .args(arguments);
            let process = Process::spawn(name, command, &control_plane.logs())?;
            process.wait_for_http(START, metrics_port, "/readyz").await?;
            processes.push(process);
            metrics_ports.push(metrics_port);
            ports.push(port);
            warnings_ports.push(warnings_port);
        }
        let (balancer, warnings) = (Balancer::start(&ports)?, Balancer::start(&warnings_ports)?);
        let service = (balancer.port(), warnings.port());
        apply_webhooks(control_plane, self.client()?, service, seconds).await?;
        let gateway =
            Gateway { processes, metrics_ports, configuration: path, folder, balancer, _warnings: warnings };
        self.gateway = Some(gateway);
        Ok(())
    }
}

fn tls_arguments(serving: &IdentityFiles) -> [String; 2] {
    [
        format!("--tls-cert-file={}", serving.certificate.display()),
        format!("--tls-private-key-file={}", serving.key.display()),
    ]
}

/// Applies the shipped webhooks, with URLs in the place of the Service, and waits until the gateway has put
/// the token into their paths. The ports are those of decisions and of warnings, `seconds` their timeout.
async fn apply_webhooks(
    control_plane: &ControlPlane,
    client: Client,
    (decisions, warnings): (u16, u16),
    seconds: i32,
) -> anyhow::Result<()> {
    let path = root().join("deploy/components/gateway/webhooks.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut configuration: ValidatingWebhookConfiguration = serde_saphyr::from_str(&text)?;
    for webhook in configuration.webhooks.iter_mut().flatten() {
        webhook.timeout_seconds = Some(seconds);
        let config = &mut webhook.client_config;
        let service = config.service.take().context("a webhook names no Service")?;
        let port = if service.port.is_some() { warnings } else { decisions };
        config.url = Some(format!("https://127.0.0.1:{port}"));
        config.ca_bundle = Some(ByteString(control_plane.pki().ca_pem().into_bytes()));
    }
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let created = api.create(&PostParams::default(), &configuration).await;
    let name = created.context("the webhooks were not applied")?.name_any();
    let (api, name) = (&api, &name);
    let pathless = &[decisions, warnings].map(|port| format!("https://127.0.0.1:{port}"));
    eventually(START, "the webhooks have their paths", || async move {
        let live = api.get(name).await.map_err(|error| error.to_string())?;
        let mut urls =
            live.webhooks.iter().flatten().filter_map(|webhook| webhook.client_config.url.as_ref());
        if urls.any(|url| pathless.contains(url)) { Err("a webhook has no path".to_owned()) } else { Ok(()) }
    })
    .await?;
    Ok(())
}
