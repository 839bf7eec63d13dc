//! An admission webhook that denies evictions, or the questions to apps.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test fails by panic, so that the logs are kept"
)]

use actix_web::{App, HttpResponse, HttpServer, web};
use controlplane::{eventually, free_port};
use evacuation_client::Requester;
use k8s_openapi::{ByteString, api::admissionregistration::v1::ValidatingWebhookConfiguration};
use kube::{
    Api,
    api::{DeleteParams, EvictParams, PostParams},
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::{
    Scene,
    scene::{ASKER, PATIENCE},
};

/// Reason of its denials.
const FREEZE: &str = "the freeze lasts until Monday";

/// A webhook that denies the evictions, or the Evacuations, of one scene's namespace.
pub struct DenyingWebhook {
    api: Api<ValidatingWebhookConfiguration>,
    name: String,
    server: actix_web::dev::ServerHandle,
}

impl std::fmt::Debug for DenyingWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DenyingWebhook").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DenyingWebhook {
    /// Starts one that denies evictions, and waits until the kube-apiserver asks it about that pod.
    pub async fn start(scene: &Scene, pod: &str) -> Self {
        let webhook = Self::serve(scene, "", "pods/eviction", 403).await;
        let pods = scene.pods.api();
        let post_options = PostParams { dry_run: true, ..PostParams::default() };
        let params = EvictParams { post_options, ..EvictParams::default() };
        denied(|| async { pods.evict(pod, &params).await.map(drop) }).await;
        webhook
    }

    /// Starts one that denies Evacuations with that code, and waits until the evacuation API asks it about
    /// that pod.
    pub async fn of_questions(scene: &Scene, pod: &str, code: u16) -> Self {
        let webhook = Self::serve(scene, "evacuation.dev", "evacuations", code).await;
        let api = scene.evacuations();
        let question = Requester::new(scene.admin(), ASKER).manifest(scene.namespace(), pod);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        denied(|| async { api.create(&dry, &question).await.map(drop) }).await;
        webhook
    }

    async fn serve(scene: &Scene, group: &str, resource: &str, code: u16) -> Self {
        let port = free_port().unwrap();
        let app = move || App::new().app_data(web::Data::new(code)).route("/", web::post().to(deny));
        let server = HttpServer::new(app)
            .workers(1)
            .disable_signals()
            .shutdown_timeout(0)
            .bind_rustls_0_23(("127.0.0.1", port), tls(scene))
            .unwrap()
            .run();
        let handle = server.handle();
        tokio::spawn(server);
        let (namespace, name) = (scene.namespace(), format!("deny-{}", scene.namespace()));
        let configuration = json!({
            "metadata": {"name": name},
            "webhooks": [{
                // Replies name it, and other scenes have one, too.
                "name": format!("{namespace}.deny.test.evacuation.dev"),
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{port}/"),
                    "caBundle": ByteString(scene.control_plane().pki().ca_pem().into_bytes()),
                },
                "rules": [{
                    "operations": ["CREATE"],
                    "apiGroups": [group],
                    "apiVersions": ["*"],
                    "resources": [resource],
                }],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        });
        let api: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin());
        let configuration = serde_json::from_value(configuration).unwrap();
        api.create(&PostParams::default(), &configuration).await.unwrap();
        Self { api, name, server: handle }
    }

    /// Name of its configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes its configuration, if that is there, and stops it.
    pub async fn stop(self) {
        match self.api.delete(&self.name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            deleted => drop(deleted.unwrap()),
        }
        self.server.stop(false).await;
    }
}

/// Waits until a dry run is denied.
async fn denied<F: Future<Output = kube::Result<()>>>(dry_run: impl Fn() -> F) {
    let asked = eventually(PATIENCE, "the webhook is asked", || async {
        match dry_run().await {
            Err(kube::Error::Api(status)) if status.message.contains(FREEZE) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    asked.await.unwrap();
}

async fn deny(code: web::Data<u16>, review: web::Json<Value>) -> HttpResponse {
    let status = json!({"code": **code, "message": FREEZE});
    HttpResponse::Ok().json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": false, "status": status},
    }))
}

fn tls(scene: &Scene) -> ServerConfig {
    let folder = scene.control_plane().folder().subfolder("deny-webhook").unwrap();
    let identity = scene.control_plane().pki().serving(&["localhost", "127.0.0.1"]);
    let files = identity.unwrap().write(&folder, "webhook").unwrap();
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
}
