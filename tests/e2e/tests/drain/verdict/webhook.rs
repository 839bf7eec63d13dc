//! Evictions that an admission webhook rejects.

use actix_web::{App, HttpResponse, HttpServer, web};
use controlplane::free_port;
use evacuation_api::DrainBlockerReason;
use evacuation_e2e::{PodSpec, Scene};
use k8s_openapi::{ByteString, api::admissionregistration::v1::ValidatingWebhookConfiguration};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::nodes::Stage;

/// A webhook that denies the evictions of one namespace.
struct Webhook {
    api: Api<ValidatingWebhookConfiguration>,
    name: String,
    server: actix_web::dev::ServerHandle,
}

impl Webhook {
    async fn start(scene: &Scene) -> Self {
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
                "name": "deny.test.evacuation.dev",
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
        webhook.is_asked(scene).await;
        webhook
    }

    /// Waits until a dry run of an eviction is refused.
    async fn is_asked(&self, scene: &Scene) {
        let pods = scene.pods.api();
        let post_options = PostParams { dry_run: true, ..PostParams::default() };
        let params = kube::api::EvictParams { post_options, ..kube::api::EvictParams::default() };
        let patience = evacuation_e2e::scene::PATIENCE;
        let refused = controlplane::eventually(patience, "the webhook is asked", || async {
            match pods.evict("app", &params).await {
                Err(kube::Error::Api(status)) if status.message.contains("deny.test") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        refused.await.unwrap();
    }

    async fn stop(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_that_a_webhook_rejects_is_stuck_after_a_while_until_it_lets_the_pod_go() {
    let stage = Stage::new("webhook", 1).await;
    let pod = stage.scene.pod("app", PodSpec::default().on(&stage.nodes[0])).await;
    let webhook = Webhook::start(&stage.scene).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let words = ["admission webhook rejects the eviction", "deny.test.evacuation.dev", "until Monday"];
    let object = |evacuation: &str| format!("Evacuation/{evacuation}");
    let slow = stage.blocked("d", DrainBlockerReason::EvictionRejected, false).await;
    let evacuation = kube::ResourceExt::name_any(&stage.scene.evacuation_of("app").await);
    slow.concerns(&[&pod], &object(&evacuation)).says(&words);
    let stuck = stage.blocked("d", DrainBlockerReason::EvictionRejected, true).await;
    stuck.concerns(&[&pod], &object(&evacuation)).says(&words);
    webhook.stop().await;
    stage.drained("d").await;
}
