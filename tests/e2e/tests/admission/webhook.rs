//! A webhook server of a test, over HTTPS.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use base64::Engine;
use controlplane::free_port;
use evacuation_e2e::Scene;
use k8s_openapi::ByteString;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

/// Answer of a webhook.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Allow,
    /// Allowed, with a JSON patch.
    Patch(Value),
    /// Allowed, with a warning.
    Warn(String),
    /// Denied, with that status.
    Deny(Value),
    /// Allowed after that time.
    Slow(Duration),
}

type Judge = Arc<dyn Fn(&Value) -> Answer + Send + Sync>;

/// A running webhook server. It notes every request.
pub(crate) struct Webhook {
    server: actix_web::dev::ServerHandle,
    requests: Arc<Mutex<Vec<Value>>>,
    authorizations: Arc<Mutex<Vec<Option<String>>>>,
    client_config: Value,
}

#[derive(Clone)]
struct Desk {
    judge: Judge,
    requests: Arc<Mutex<Vec<Value>>>,
    authorizations: Arc<Mutex<Vec<Option<String>>>>,
}

async fn review(desk: web::Data<Desk>, head: HttpRequest, review: web::Json<Value>) -> HttpResponse {
    let authorization = head.headers().get("Authorization").map(|value| value.to_str().unwrap().to_owned());
    desk.authorizations.lock().unwrap().push(authorization);
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"], "allowed": true});
    desk.requests.lock().unwrap().push(request.clone());
    match (desk.judge)(request) {
        Answer::Allow => {}
        Answer::Patch(patch) => {
            let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
            response["patch"] = json!(patch);
            response["patchType"] = json!("JSONPatch");
        }
        Answer::Warn(warning) => response["warnings"] = json!([warning]),
        Answer::Deny(status) => {
            response["allowed"] = json!(false);
            response["status"] = status;
        }
        Answer::Slow(time) => tokio::time::sleep(time).await,
    }
    HttpResponse::Ok().json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    }))
}

impl Webhook {
    /// Starts a server that answers as `judge` says to the `request` of a review.
    pub(crate) fn start(scene: &Scene, judge: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let authorizations = Arc::<Mutex<Vec<Option<String>>>>::default();
        let desk = Desk {
            judge: Arc::new(judge),
            requests: requests.clone(),
            authorizations: authorizations.clone(),
        };
        let desk = web::Data::new(desk);
        let port = free_port().unwrap();
        // The port can have been that of a webhook which another test has stopped, and which is still called.
        let path = format!("/{}", scene.namespace());
        let route = path.clone();
        let app = move || App::new().app_data(desk.clone()).route(&route, web::post().to(review));
        let server = HttpServer::new(app)
            .workers(1)
            .disable_signals()
            .shutdown_timeout(0)
            .bind_rustls_0_23(("127.0.0.1", port), tls(scene))
            .unwrap()
            .run();
        let handle = server.handle();
        tokio::spawn(server);
        let ca = ByteString(scene.control_plane().pki().ca_pem().into_bytes());
        let client_config = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": ca});
        Self { server: handle, requests, authorizations, client_config }
    }

    /// The `clientConfig` of a configuration.
    pub(crate) fn client_config(&self) -> Value {
        self.client_config.clone()
    }

    /// Takes the requests so far, those of the stage's own probes aside.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.retain(|request| !request["name"].as_str().is_some_and(|name| name.starts_with("probe")));
        requests
    }

    /// Takes the values of the `Authorization` headers so far, of probes as well; `None` for a request
    /// without.
    pub(crate) fn authorizations(&self) -> Vec<Option<String>> {
        std::mem::take(&mut *self.authorizations.lock().unwrap())
    }

    /// Returns true when a probe of the stage arrived.
    pub(crate) fn was_probed(&self) -> bool {
        let requests = self.requests.lock().unwrap();
        requests.iter().any(|request| request["name"].as_str().is_some_and(|name| name.starts_with("probe")))
    }

    /// Ends the server: calls fail from then on.
    pub(crate) async fn stop(&self) {
        tokio::time::timeout(Duration::from_secs(10), self.server.stop(false)).await.unwrap();
    }
}

fn tls(scene: &Scene) -> ServerConfig {
    let folder = scene.control_plane().folder().subfolder(&format!("webhook-{}", scene.namespace())).unwrap();
    let identity = scene.control_plane().pki().serving(&["localhost", "127.0.0.1"]);
    let files = identity.unwrap().write(&folder, "webhook").unwrap();
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
}
