//! A gateway that requires the kube-apiserver's tokens: KEP-6060.
//!
//! The kube-apiserver of 1.37 requests no token by itself. It presents one from a file that its
//! AdmissionConfiguration names.

use std::fs;

use controlplane::{ControlPlane, eventually};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Scene,
    scene::{Bystander, PATIENCE, quick, refused_saying},
};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    authentication::v1::TokenRequest,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, EvictParams, PostParams},
};
use serde_json::json;
use tempfile::TempDir;

use crate::impostor::{path_token, post_with, review, writes};

const CONFIGURATION: &str =
    "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\ncallers: []\n";
/// Account of the kube-apiserver's tokens.
const ACCOUNT: &str = "webhook-auth";

/// Writes an AdmissionConfiguration by which the kube-apiserver presents the token in the file `token`.
fn admission_configuration(folder: &TempDir) -> String {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let users = json!([{"name": "*", "user": {"tokenFile": path("token")}}]);
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "users": users});
    let webhooks = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": path("kubeconfig"),
    });
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ValidatingAdmissionWebhook", "configuration": webhooks}],
    });
    fs::write(path("kubeconfig"), kubeconfig.to_string()).unwrap();
    fs::write(path("admission"), configuration.to_string()).unwrap();
    path("admission")
}

/// Creates the account, which may attest everything, as that of the kube-apiserver.
async fn account(scene: &Scene) {
    let metadata = json!({"name": ACCOUNT});
    let role = json!({"metadata": metadata, "rules": [{
        "apiGroups": ["authentication.k8s.io"], "resources": ["admissionReviewAPIGroups"],
        "resourceNames": ["*"], "verbs": ["attest"],
    }]});
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": ACCOUNT}],
    });
    let params = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.admin(), "kube-system");
    let object = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    accounts.create(&params, &object).await.unwrap();
    let roles: Api<ClusterRole> = Api::all(scene.admin());
    roles.create(&params, &serde_json::from_value(role).unwrap()).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(scene.admin());
    bindings.create(&params, &serde_json::from_value(binding).unwrap()).await.unwrap();
}

/// Requests a token of an account for the gateway's host; bound to a webhook configuration if one is named.
async fn token(scene: &Scene, namespace: &str, account: &str, configuration: Option<&str>) -> String {
    let audience = format!("https://127.0.0.1:{}/", scene.platform().gateway().unwrap().port());
    let mut spec = json!({"audiences": [audience], "expirationSeconds": 600});
    if let Some(name) = configuration {
        let kind = "ValidatingWebhookConfiguration";
        spec["boundObjectRef"] =
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "name": name});
        spec["attestations"] = json!({"admissionReviewAPIGroups": ["*"]});
    }
    let request: TokenRequest = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.admin(), namespace);
    let issued = eventually(PATIENCE, "the token is issued", || async {
        accounts.create_token_request(account, &PostParams::default(), &request).await
    });
    issued.await.unwrap().status.and_then(|status| status.token).unwrap()
}

/// The token is a second proof beside the path.
///
/// # Attack
///
/// - Attacker: a holder of the secret path
/// - Act: calls the gateway without a token, or with one of a service account, or of another webhook
/// - Promise: 12
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_requires_tokens_answers_the_kube_apiserver_and_no_holder_of_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let argument = format!("--admission-control-config-file={}", admission_configuration(&folder));
    let control_plane = ControlPlane::builder()
        .feature_gates(&[("APIServerWebhookAuthenticationToken", true)])
        .apiserver_args(&[&argument]);
    let options = PlatformOptions {
        control_plane,
        components: vec!["gateway-attestation".to_owned()],
        gateway: Some(CONFIGURATION.to_owned()),
        gateway_args: vec!["--require-attestation".to_owned()],
        ..PlatformOptions::default()
    };
    let scene = Scene::alone("attested", options).await;
    let (beside, node) = tokio::join!(Bystander::new(&scene), scene.own_node());
    account(&scene).await;
    let own = token(&scene, "kube-system", ACCOUNT, Some("evacuation-gateway")).await;
    fs::write(folder.path().join("token"), &own).unwrap();

    // The kube-apiserver's calls are answered.
    let asked = scene.pod("asked", PodSpec::watching().on(&node)).await;
    let evicted = scene.pods.api().evict("asked", &EvictParams::default()).await;
    refused_saying(evicted.map(drop), 429, "asked");
    let evacuation = scene.evacuation_of("asked").await;
    scene.reached(&evacuation, 0).await;
    let gateway = scene.platform().gateway().unwrap();
    assert!(gateway.count("calls_rejected", &[]).await.unwrap() < 1.0);
    assert!(scene.failed_open().is_empty());

    // Others' are not.
    let victim = scene.pods.create("victim", &quick(PodSpec::default()).on(&node)).await.unwrap();
    let foreign = format!("foreign-{}", scene.namespace());
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(scene.admin());
    let object = serde_json::from_value(json!({"metadata": {"name": foreign}})).unwrap();
    configurations.create(&PostParams::default(), &object).await.unwrap();
    let of_foreign = token(&scene, "kube-system", ACCOUNT, Some(&foreign)).await;
    let of_account = token(&scene, scene.namespace(), "default", None).await;
    let of_pod =
        scene.control_plane().service_account_token(scene.namespace(), "default", None).await.unwrap();
    let mark = scene.control_plane().audit_mark().unwrap();
    let path = format!("/delete/{}", path_token(&scene).await);
    let calls = async {
        for (bearer, code) in [
            (None, 401),
            (Some("made.up.token"), 401),
            (Some(of_pod.as_str()), 401),
            (Some(of_account.as_str()), 403),
            (Some(of_foreign.as_str()), 403),
        ] {
            assert_eq!(post_with(&scene, &path, &review(&victim), bearer).await.0, code, "{bearer:?}");
        }
        let guess = format!("/delete/{}", "0".repeat(64));
        let guessed = post_with(&scene, &guess, &review(&victim), Some(&own)).await.0;
        assert_eq!(guessed, 403, "the path counts, too");
    };
    tokio::join!(calls, beside.drains(&scene));
    assert!(gateway.count("calls_rejected", &[]).await.unwrap() >= 6.0);
    assert_eq!(writes(&scene, mark), Vec::<String>::new());
    assert!(scene.stays(&victim).await && scene.stays(&asked).await);
    scene.left_alone("victim");
    scene.left_alone("asked");
    assert_eq!(post_with(&scene, &path, &review(&victim), Some(&own)).await.0, 200);
    let shown = [gateway.metrics().await.unwrap(), gateway.processes()[0].log().unwrap()];
    assert!(shown.iter().all(|text| !text.contains(&own)), "the token is in no metric and in no log");
    configurations.delete(&foreign, &DeleteParams::default()).await.unwrap();
}
