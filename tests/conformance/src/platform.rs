//! Both servers behind one kube-apiserver: the example kind, aggregated, and the custom resource.

use std::{thread::JoinHandle, time::Duration};

use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Parser;
use controlplane::{ControlPlane, Etcd, eventually, free_port};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use machinery_example::{Options, run};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{GROUP, ORACLE_GROUP, Side, definition};

/// Maximum time of a start on a busy machine.
const START: Duration = Duration::from_mins(3);
/// Makes the autoscaler look at its targets often. The default is a look every 15 s.
const AUTOSCALING: &str = "--horizontal-pod-autoscaler-sync-period=1s";
/// Namespace and name of the Service of the example kind's server.
const SERVICE: (&str, &str) = ("default", "fleets");

/// Both servers. They stop when it is dropped.
pub struct Platform {
    _server: DropGuard,
    _etcd: Etcd,
    control_plane: ControlPlane,
}

impl Platform {
    /// Starts a control plane and the server of the example kind, and defines the custom resource.
    ///
    /// # Errors
    ///
    /// Names the part that did not start.
    pub async fn start() -> anyhow::Result<Self> {
        let control_plane = ControlPlane::builder().nodes(0).controller_manager_args(&[AUTOSCALING]);
        let (control_plane, etcd) = tokio::join!(control_plane.start(), Etcd::start());
        let (control_plane, etcd) = (control_plane?, etcd?);
        let port = free_port()?;
        let options = options(&control_plane, &etcd, port)?;
        let stop = CancellationToken::new();
        let serving = serve(options, stop.clone());
        let client = control_plane.client()?;
        register(&client, port, &control_plane.pki().ca_pem()).await?;
        let document = eventually(START, "the OpenAPI document of the example kind", || async {
            if serving.is_finished() {
                bail!("the server has ended");
            }
            get(&client, &format!("/openapi/v3/apis/{GROUP}/v1")).await
        });
        let definition = definition(&document.await?)?;
        post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        for group in [GROUP, ORACLE_GROUP] {
            eventually(START, "both groups are served", || async {
                get(&client, &format!("/apis/{group}/v1/namespaces/default/fleets")).await
            })
            .await?;
        }
        // Its garbage collector would remove finalizers at any time.
        control_plane.controller_manager().stop()?;
        Ok(Self { _server: stop.drop_guard(), _etcd: etcd, control_plane })
    }

    /// Makes a namespace, and returns both sides in it: the custom resource first.
    ///
    /// # Errors
    ///
    /// The namespace cannot be created.
    pub async fn sides(&self, namespace: &str) -> anyhow::Result<(Side, Side)> {
        let client = self.control_plane.client()?;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        post(&client, "/api/v1/namespaces", &object).await?;
        Ok((Side::new(client.clone(), ORACLE_GROUP, namespace), Side::new(client, GROUP, namespace)))
    }

    /// The control plane below.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }
}

/// Serves on threads of its own: the runtime of a test ends with the test, and others share the platform.
fn serve(options: Options, stop: CancellationToken) -> JoinHandle<anyhow::Result<()>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run(options, stop))
    })
}

fn options(control_plane: &ControlPlane, etcd: &Etcd, port: u16) -> anyhow::Result<Options> {
    let (namespace, name) = SERVICE;
    let identity = control_plane.pki().serving(&[&format!("{name}.{namespace}.svc"), "localhost"])?;
    let files = identity.write(&control_plane.folder().subfolder("fleets")?, "serving")?;
    Ok(Options::try_parse_from([
        "machinery-example".to_owned(),
        format!("--address=127.0.0.1:{port}"),
        format!("--tls-cert-file={}", files.certificate.display()),
        format!("--tls-private-key-file={}", files.key.display()),
        format!("--kubeconfig={}", control_plane.kubeconfig().display()),
        format!("--etcd-servers={}", etcd.endpoint()),
    ])?)
}

/// Registers the server at the aggregator.
async fn register(client: &Client, port: u16, ca: &str) -> anyhow::Result<()> {
    let (namespace, name) = SERVICE;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    post(client, &format!("/api/v1/namespaces/{namespace}/services"), &service).await?;
    let registration = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{GROUP}")},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "caBundle": STANDARD.encode(ca),
            "service": {"namespace": namespace, "name": name, "port": port},
        },
    });
    post(client, "/apis/apiregistration.k8s.io/v1/apiservices", &registration).await
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    send(client, Request::get(path).body(Body::empty())?).await
}

async fn post(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let request =
        Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    send(client, request.body(Body::from(serde_json::to_vec(object)?))?).await.map(|_| ())
}

async fn send(client: &Client, request: Request<Body>) -> anyhow::Result<Value> {
    let response = client.send(request).await.context("no answer")?;
    let code = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !code.is_success() {
        bail!("{code}: {}", String::from_utf8_lossy(&body));
    }
    Ok(serde_json::from_slice(&body)?)
}
