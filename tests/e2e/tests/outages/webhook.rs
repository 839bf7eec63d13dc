//! An admission webhook that holds evictions for as long as the test likes.

use evacuation_e2e::{Platform, Scene, scene::PATIENCE};
use std::{sync::Arc, time::Duration};

use actix_web::{App, HttpResponse, HttpServer, web};
use controlplane::{eventually, free_port};
use k8s_openapi::{ByteString, api::admissionregistration::v1::ValidatingWebhookConfiguration};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, PostParams},
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

/// Verdict on evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They are refused.
    Deny,
    /// They wait for another verdict.
    Hold,
    /// They pass.
    Allow,
}

/// A webhook on `pods/eviction` in one namespace.
pub(crate) struct Webhook {
    verdict: watch::Sender<Verdict>,
    held: Arc<Notify>,
    server: actix_web::dev::ServerHandle,
    api: Api<ValidatingWebhookConfiguration>,
    name: String,
}

#[derive(Clone)]
struct Desk {
    verdict: watch::Receiver<Verdict>,
    held: Arc<Notify>,
}

async fn review(desk: web::Data<Desk>, review: web::Json<Value>) -> HttpResponse {
    let mut verdict = desk.verdict.clone();
    if *verdict.borrow_and_update() == Verdict::Hold {
        desk.held.notify_one();
    }
    let decided = verdict.wait_for(|verdict| *verdict != Verdict::Hold).await;
    let allowed = decided.is_ok_and(|verdict| *verdict == Verdict::Allow);
    HttpResponse::Ok().json(json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": allowed},
    }))
}

impl Webhook {
    /// Starts one that refuses, and waits until the kube-apiserver asks it.
    pub(crate) async fn start(scene: &Scene) -> Self {
        let (verdict, receiver) = watch::channel(Verdict::Deny);
        let held = Arc::new(Notify::new());
        let desk = web::Data::new(Desk { verdict: receiver, held: held.clone() });
        let port = free_port().unwrap();
        let server =
            HttpServer::new(move || App::new().app_data(desk.clone()).route("/", web::post().to(review)))
                .workers(1)
                .disable_signals()
                .shutdown_timeout(0)
                .bind_rustls_0_23(("127.0.0.1", port), tls(scene.platform()))
                .unwrap()
                .run();
        let handle = server.handle();
        tokio::spawn(server);
        let namespace = scene.pods.namespace();
        let webhook = Self {
            verdict,
            held,
            server: handle,
            api: Api::all(scene.platform().client().unwrap()),
            name: format!("hold-{namespace}"),
        };
        let configuration = json!({
            "metadata": {"name": webhook.name},
            "webhooks": [{
                "name": "hold.test.evacuation.dev",
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
                "timeoutSeconds": 30,
                "admissionReviewVersions": ["v1"],
            }],
        });
        let configuration = serde_json::from_value(configuration).unwrap();
        webhook.api.create(&PostParams::default(), &configuration).await.unwrap();
        webhook.is_asked(scene).await;
        webhook
    }

    /// Waits until a dry run of an eviction is refused.
    async fn is_asked(&self, scene: &Scene) {
        let pods = scene.pods.api();
        let pod = pods.list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
        let params = EvictParams {
            post_options: PostParams { dry_run: true, ..PostParams::default() },
            ..EvictParams::default()
        };
        let refused = eventually(PATIENCE, "the webhook is asked", || async {
            match pods.evict(&pod.name_any(), &params).await {
                Err(kube::Error::Api(status)) if status.message.contains("hold.test") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        refused.await.unwrap();
    }

    /// Sets the verdict on evictions from now on, also on those that wait.
    pub(crate) fn set(&self, verdict: Verdict) {
        self.verdict.send_replace(verdict);
    }

    /// Waits until an eviction waits.
    pub(crate) async fn holds(&self) {
        tokio::time::timeout(PATIENCE, self.held.notified()).await.unwrap();
    }

    /// Takes it away.
    pub(crate) async fn stop(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        let stopped = tokio::time::timeout(Duration::from_secs(10), self.server.stop(false));
        stopped.await.unwrap();
    }
}

fn tls(platform: &Platform) -> ServerConfig {
    let folder = platform.control_plane().folder().subfolder("webhook").unwrap();
    let identity = platform.control_plane().pki().serving(&["localhost", "127.0.0.1"]);
    let files = identity.unwrap().write(&folder, "webhook").unwrap();
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
}
