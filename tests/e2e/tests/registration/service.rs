//! Push to a Service.

use evacuation_e2e::{PodSpec, Scene};
use std::net::SocketAddr;

use base64::{Engine, engine::general_purpose::STANDARD};
use controlplane::Pki;
use evacuation_api::{Answer, ResponderState};
use k8s_openapi::api::{authentication::v1::TokenReview, core::v1::Service};
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::endpoint::accepting;

use crate::database::{self, FAILOVER};

const PORT: u16 = 8443;
/// The user that the controller is.
const CONTROLLER: &str = "system:serviceaccount:evacuation-system:evacuation-controller";

/// Creates the Service `failover`, and returns where it is.
async fn service(scene: &Scene) -> SocketAddr {
    let service: Service =
        scene.create(json!({"metadata": {"name": "failover"}, "spec": {"ports": [{"port": PORT}]}})).await;
    let ip = service.spec.unwrap().cluster_ip.unwrap();
    SocketAddr::new(ip.parse().unwrap(), PORT)
}

/// Registers the Service, trusted by that authority.
async fn register(scene: &Scene, authority: &Pki, timeout: i64) {
    let https = json!({"caBundle": STANDARD.encode(authority.ca_pem())});
    let service = json!({"name": "failover", "port": PORT, "path": "/moves", "https": https});
    let spec = json!({"service": service, "timeoutSeconds": timeout});
    database::register(scene, "failover", FAILOVER, spec).await;
}

/// The user of a token that is valid for that audience; for the API's own without one.
async fn whose(scene: &Scene, token: &str, audience: Option<String>) -> Option<String> {
    let audiences: Vec<String> = audience.into_iter().collect();
    let review = json!({"metadata": {}, "spec": {"token": token, "audiences": audiences}});
    let review: TokenReview = serde_json::from_value(review).unwrap();
    let api: Api<TokenReview> = Api::all(scene.admin());
    let status = api.create(&PostParams::default(), &review).await.unwrap().status.unwrap();
    let user = status.user.and_then(|user| user.username);
    user.filter(|_| status.authenticated == Some(true))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_asked_over_https_and_can_check_who_asks() {
    let scene = database::scene("service").await;
    let authority = Pki::new("the-apps-own-ca").unwrap();
    let host = format!("failover.{}.svc", scene.namespace());
    let address = service(&scene).await;
    let identity = authority.serving(&[&host]).unwrap();
    let (_endpoint, mut asked) = accepting(address, &identity).await;
    register(&scene, &authority, 60).await;
    let pod = database::pod(&scene, PodSpec::default()).await;
    let evacuation = database::ask(&scene, &pod).await;
    let responders = database::evacuated(&scene, &evacuation).await;
    assert_eq!(responders[0].answer, Some(Answer::Accept));

    let asked = asked.try_recv().unwrap();
    assert!(asked.head.starts_with("POST /moves HTTP/1.1"), "{}", asked.head);
    assert_eq!(asked.question["request"]["responder"], FAILOVER);
    assert_eq!(whose(&scene, asked.token(), Some(host)).await.as_deref(), Some(CONTROLLER));
    assert_eq!(whose(&scene, asked.token(), None).await, None, "the API takes no such token");
}

/// A Service that shows a certificate of that authority for that name hears nothing of the question.
async fn hears_nothing(prefix: &str, shown: &Pki, host: impl Fn(&Scene) -> String, authority: &Pki) {
    let scene = database::scene(prefix).await;
    let address = service(&scene).await;
    let identity = shown.serving(&[&host(&scene)]).unwrap();
    let (_endpoint, mut asked) = accepting(address, &identity).await;
    register(&scene, authority, 3).await;
    let pod = database::pod(&scene, PodSpec::default()).await;
    let evacuation = database::ask(&scene, &pod).await;
    let event = database::event(&scene, "PushFailed").await;
    assert!(event.contains("certificate"), "{event}");
    let responders = database::evacuated(&scene, &evacuation).await;
    assert_eq!(responders[0].state, ResponderState::Interrupted);
    assert!(asked.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_certificate_another_authority_signed_hears_nothing_and_counts_as_silent() {
    let (authority, other) = (Pki::new("the-apps-own-ca").unwrap(), Pki::new("another-ca").unwrap());
    let host = |scene: &Scene| format!("failover.{}.svc", scene.namespace());
    hears_nothing("impostor", &other, host, &authority).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_certificate_is_for_another_name_hears_nothing_and_counts_as_silent() {
    let authority = Pki::new("the-apps-own-ca").unwrap();
    let host = |scene: &Scene| format!("other.{}.svc", scene.namespace());
    hears_nothing("other-name", &authority, host, &authority).await;
}
