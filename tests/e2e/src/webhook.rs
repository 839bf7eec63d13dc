//! An admission webhook that denies evictions.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test fails by panic, so that the logs are kept"
)]

use actix_web::{App, HttpResponse, HttpServer, web};
use controlplane::{eventually, free_port};
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

use crate::{Scene, scene::PATIENCE};

/// A webhook that denies the evictions of one scene's namespace.
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
    /// Starts it, and waits until the kube-apiserver asks it about that pod.
    pub async fn start(scene: &Scene, pod: &str) -> Self {
        let port = free_port().unwrap();
        let server = HttpServer::new(|| App::new().route("/", web::post().to(deny)))
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
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods/eviction"],
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
        let webhook = Self { api, name, server: handle };
        webhook.is_asked(scene, pod).await;
        webhook
    }

    /// Name of its configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until a dry run of an eviction is refused.
    async fn is_asked(&self, scene: &Scene, pod: &str) {
        let pods = scene.pods.api();
        let post_options = PostParams { dry_run: true, ..PostParams::default() };
        let params = EvictParams { post_options, ..EvictParams::default() };
        let refused = eventually(PATIENCE, "the webhook is asked", || async {
            match pods.evict(pod, &params).await {
                Err(kube::Error::Api(status)) if status.message.contains("deny.test") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        refused.await.unwrap();
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

async fn deny(review: web::Json<Value>) -> HttpResponse {
    let status = json!({"code": 403, "message": "the freeze lasts until Monday"});
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
