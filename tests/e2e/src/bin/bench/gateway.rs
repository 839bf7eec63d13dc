//! The time that the gateway adds to `pods/eviction` and to DELETE of pods, at 50 calls a second: for pods
//! that pass, and for the first question to an app. Its peers are the same calls without a webhook, and with
//! a webhook that allows everything.

use std::time::{Duration, Instant};

use actix_web::{App, HttpServer, web};
use anyhow::{Context, bail, ensure};
use controlplane::{ControlPlane, Process};
use evacuation_e2e::{Platform, PlatformOptions, PodSpec, Pods};
use futures::future::join_all;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ObjectMeta, PostParams},
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{
    latency::{COUNT, make_pods},
    proc_files::Stat,
    report::{Aim, Row},
    samples::Samples,
};

/// User of the gateway.
const GATEWAY: &str = "system:serviceaccount:evacuation-system:evacuation-gateway";
/// 50 calls a second.
const PERIOD: Duration = Duration::from_millis(20);
/// Name of the gateway's webhook configuration.
const WEBHOOKS: &str = "evacuation-gateway";
/// Time in which the kube-apiserver takes in a change of webhooks.
const SETTLED: Duration = Duration::from_secs(3);
/// Maximum of what the gateway adds at p99, in milliseconds: to a first question, and to a call that passes.
const ASKED: f64 = 20.0;
const PASSED: f64 = 5.0;
/// The gateway's configuration: the built-in table.
const CONFIGURATION: &str =
    "{apiVersion: gateway.evacuation.dev/v1alpha1, kind: GatewayConfiguration, callers: []}";

/// A call that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Evict,
    Delete,
}

impl Call {
    const ALL: [Self; 2] = [Self::Evict, Self::Delete];

    fn words(self) -> &'static str {
        match self {
            Self::Evict => "pods/eviction",
            Self::Delete => "DELETE of pods",
        }
    }

    /// Makes the call. Returns the code of a reply that denies it.
    async fn make(self, api: &Api<Pod>, pod: &str) -> anyhow::Result<Option<u16>> {
        let done = match self {
            Self::Evict => api.evict(pod, &EvictParams::default()).await.map(drop),
            Self::Delete => api.delete(pod, &DeleteParams::default()).await.map(drop),
        };
        match done {
            Ok(()) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(status.code)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Runs the benchmark.
pub(crate) async fn run() -> anyhow::Result<Vec<Row>> {
    let options = PlatformOptions {
        control_plane: ControlPlane::builder().nodes(10),
        gateway: Some(CONFIGURATION.to_owned()),
        gateway_seconds: 1,
        ..PlatformOptions::default()
    };
    let platform = Platform::start(options).await?;
    let webhooks = Webhooks::of(&platform).await?;
    let allowing = allow_all(platform.control_plane())?;

    webhooks.replace(None).await?;
    let bare = measure_all(&platform, "bare", &PodSpec::default(), None).await?;
    webhooks.replace(Some(allowing)).await?;
    let allowed = measure_all(&platform, "allowed", &PodSpec::default(), None).await?;
    webhooks.restore().await?;
    let costs = Costs::begin(&platform)?;
    let passed = measure_all(&platform, "passed", &PodSpec::default(), None).await?;
    let mut rows = Vec::from(costs.rows(&platform, "a call that passes")?);
    let costs = Costs::begin(&platform)?;
    let asked = measure_all(&platform, "asked", &PodSpec::watching(), Some(429)).await?;
    rows.extend(costs.rows(&platform, "a first question")?);

    for (number, call) in Call::ALL.into_iter().enumerate() {
        let of =
            |all: &[Samples; 2], percent| all.get(number).map_or(0.0, |samples| samples.quantile(percent));
        for percent in [50, 99] {
            let added = |all| of(all, percent) - of(&bare, percent);
            let case = format!("{}, added for pods that pass: p{percent}", call.words());
            let through = Row::new("gateway", case, "ms", added(&passed));
            let through = through.beside("a webhook that allows everything", added(&allowed));
            // The call goes no further, so that all of its time is the gateway's and the webhook's.
            let case = format!("{}, to the reply that the app is asked: p{percent}", call.words());
            let question = Row::new("gateway", case, "ms", of(&asked, percent));
            let question =
                question.beside("the same call without a webhook, which is carried out", of(&bare, percent));
            rows.extend(if percent == 99 {
                [through.aim(Aim::Value(PASSED)), question.aim(Aim::Value(ASKED))]
            } else {
                [through, question]
            });
        }
    }
    Ok(rows)
}

/// The CPU time of the gateway and the length of the audit log when a measurement began.
struct Costs {
    cpu: f64,
    mark: u64,
}

impl Costs {
    fn begin(platform: &Platform) -> anyhow::Result<Self> {
        Ok(Self { cpu: cpu(platform)?, mark: platform.control_plane().audit_mark()? })
    }

    /// Returns what a call cost since then.
    fn rows(self, platform: &Platform, what: &str) -> anyhow::Result<[Row; 2]> {
        #[expect(clippy::cast_precision_loss, reason = "numbers of calls are far below 2^52")]
        let a_call = |total: f64| total / (Call::ALL.len() * COUNT) as f64;
        let events = platform.control_plane().audit_events_since(self.mark)?;
        let requests = events.iter().filter(|event| event.user() == GATEWAY && event.verb() != "watch");
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let requests = requests.count() as f64;
        Ok([
            Row::new(
                "gateway",
                format!("CPU of the gateway, {what}"),
                "ms",
                a_call((cpu(platform)? - self.cpu) * 1e3),
            ),
            Row::new("gateway", format!("API requests of the gateway, {what}"), "requests", a_call(requests)),
        ])
    }
}

/// Returns the CPU time of the gateway so far, in seconds.
fn cpu(platform: &Platform) -> anyhow::Result<f64> {
    let gateway = platform.gateway().context("there is a gateway")?;
    let pid = gateway.processes().first().and_then(Process::pid).context("it runs")?;
    Ok(Stat::of(&pid.to_string())?.cpu)
}

/// Measures both calls, each on pods of its own. Every call must be answered with that code, if any.
async fn measure_all(
    platform: &Platform,
    name: &str,
    spec: &PodSpec,
    denied: Option<u16>,
) -> anyhow::Result<[Samples; 2]> {
    let mut all = [Samples::default(), Samples::default()];
    for (samples, call) in all.iter_mut().zip(Call::ALL) {
        let pods = platform.namespace(&format!("{name}-{call:?}").to_lowercase()).await?;
        let targets = make_pods(&pods, spec).await?;
        *samples = measure(&pods, &targets, call, denied).await?;
    }
    Ok(all)
}

async fn measure(pods: &Pods, targets: &[Pod], call: Call, denied: Option<u16>) -> anyhow::Result<Samples> {
    let api = pods.api();
    let mut tick = interval(PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut calls = Vec::new();
    for pod in targets {
        tick.tick().await;
        let (api, pod) = (api.clone(), pod.name_any());
        calls.push(tokio::spawn(async move {
            let began = Instant::now();
            let code = call.make(&api, &pod).await?;
            anyhow::Ok((code, began.elapsed()))
        }));
    }
    let mut samples = Samples::default();
    for made in join_all(calls).await {
        let (code, time) = made??;
        ensure!(code == denied, "{}: {code:?}, and not {denied:?}", call.words());
        samples.add_duration(time);
    }
    ensure!(samples.len() == COUNT, "{} of {COUNT} calls", samples.len());
    Ok(samples)
}

/// The gateway's webhooks, which are exchanged for others and put back.
struct Webhooks {
    api: Api<ValidatingWebhookConfiguration>,
    ours: ValidatingWebhookConfiguration,
}

impl Webhooks {
    async fn of(platform: &Platform) -> anyhow::Result<Self> {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(platform.client()?);
        let found = api.get(WEBHOOKS).await.context("the gateway has webhooks")?;
        let ours = ValidatingWebhookConfiguration {
            metadata: ObjectMeta { name: Some(WEBHOOKS.to_owned()), ..ObjectMeta::default() },
            ..found
        };
        Ok(Self { api, ours })
    }

    /// Replaces the webhooks by those of another server, or by none.
    async fn replace(&self, server: Option<(String, Vec<u8>)>) -> anyhow::Result<()> {
        self.api.delete(WEBHOOKS, &DeleteParams::default()).await.map(drop).or_else(|error| match error {
            kube::Error::Api(status) if status.code == 404 => Ok(()),
            error => Err(error),
        })?;
        if let Some((url, ca)) = server {
            let mut other = self.ours.clone();
            for webhook in other.webhooks.iter_mut().flatten() {
                webhook.client_config.url = Some(url.clone());
                webhook.client_config.ca_bundle = Some(ByteString(ca.clone()));
            }
            self.api.create(&PostParams::default(), &other).await?;
        }
        sleep(SETTLED).await;
        Ok(())
    }

    async fn restore(&self) -> anyhow::Result<()> {
        self.replace(None).await?;
        self.api.create(&PostParams::default(), &self.ours).await?;
        sleep(SETTLED).await;
        Ok(())
    }
}

/// Starts a webhook that allows everything. Returns its URL and its CA. It ends with the process.
fn allow_all(control_plane: &ControlPlane) -> anyhow::Result<(String, Vec<u8>)> {
    let folder = control_plane.folder().subfolder("allow-all")?;
    let files = control_plane.pki().serving(&["localhost", "127.0.0.1"])?.write(&folder, "allow-all")?;
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(&files.certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&files.key)?;
    let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
    let app = || App::new().app_data(web::PayloadConfig::new(1 << 22)).default_service(web::post().to(allow));
    let server = HttpServer::new(app).workers(1).bind_rustls_0_23("127.0.0.1:0", tls)?;
    let Some(address) = server.addrs().into_iter().next() else { bail!("it listens nowhere") };
    tokio::spawn(server.disable_signals().run());
    Ok((format!("https://{address}/"), control_plane.pki().ca_pem().into_bytes()))
}

async fn allow(review: web::Json<Value>) -> web::Json<Value> {
    let uid = review.pointer("/request/uid").cloned().unwrap_or_default();
    web::Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true},
    }))
}
