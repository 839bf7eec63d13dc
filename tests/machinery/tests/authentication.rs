//! Behaviour that only a real kube-apiserver shows. The client is a user with the rights that the
//! documentation of `machinery-auth` names.
//! `machinery-auth` names.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panic")]

use std::time::Duration;

use controlplane::{ControlPlane, Identity, Pki, eventually};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod},
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use machinery_auth::{
    Attributes, AuthError, Authenticator, Authorizer, DelegatedAuthentication, ResourceAttributes,
    SubjectAccessReviewAuthorizer, UserInfo, Verdict,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// The aggregated server's user.
const SERVER: &str = "aggregated-server";

async fn control_plane() -> &'static ControlPlane {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    let start = async {
        let control_plane = ControlPlane::builder().nodes(0).start().await.unwrap();
        let admin = control_plane.client().unwrap();
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SERVER});
        let delegator = json!({
            "metadata": {"name": "aggregated-server"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
            "subjects": [subject],
        });
        create(Api::<ClusterRoleBinding>::all(admin.clone()), delegator).await;
        let reader = json!({
            "metadata": {"name": "aggregated-server"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "extension-apiserver-authentication-reader",
            },
            "subjects": [subject],
        });
        create(Api::<RoleBinding>::namespaced(admin, "kube-system"), reader).await;
        control_plane
    };
    SHARED.get_or_init(|| Box::pin(start)).await
}

async fn create<K>(api: Api<K>, object: Value) -> K
where
    K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

async fn server_client(control_plane: &ControlPlane) -> Client {
    control_plane.client_for_user(SERVER, None).await.unwrap()
}

fn certificate(identity: &Identity) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap()]
}

fn remote_user(name: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", HeaderValue::from_static(name));
    headers
}

#[tokio::test]
async fn a_token_bound_to_a_pod_names_the_pod() {
    let control_plane = control_plane().await;
    let admin = control_plane.client().unwrap();
    let pod = json!({
        "metadata": {"name": "bound"},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    let pod = create(Api::<Pod>::namespaced(admin, "default"), pod).await;
    let uid = pod.metadata.uid.unwrap();
    let token =
        control_plane.service_account_token("default", "default", Some(("bound", &uid))).await.unwrap();

    let shutdown = CancellationToken::new();
    let _stop = shutdown.clone().drop_guard();
    let authentication =
        DelegatedAuthentication::start(server_client(control_plane).await, shutdown).await.unwrap();
    let bearer = |token: &str| {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        HeaderMap::from_iter([(AUTHORIZATION, value)])
    };
    let user = authentication.authenticate(&bearer(&token), &[]).await.unwrap().unwrap();
    assert_eq!(user.name, "system:serviceaccount:default:default");
    assert!(user.is_in_group("system:serviceaccounts:default") && user.is_in_group("system:authenticated"));
    assert_eq!(user.extra_value("authentication.kubernetes.io/pod-name"), Some("bound"));
    assert_eq!(user.extra_value("authentication.kubernetes.io/pod-uid"), Some(uid.as_str()));

    let forged = authentication.authenticate(&bearer(&format!("{token}x")), &[]).await;
    assert!(matches!(forged, Err(AuthError::InvalidCredentials { .. })), "{forged:?}");
}

#[tokio::test]
async fn rights_are_those_of_the_clusters_roles() {
    let control_plane = control_plane().await;
    let admin = control_plane.client().unwrap();
    let role = json!({
        "metadata": {"name": "jane"},
        "rules": [
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
            {
                "apiGroups": ["example.dev"], "resources": ["responders"], "verbs": ["respond"],
                "resourceNames": ["db.acme.io/failover"],
            },
        ],
    });
    create(Api::<Role>::namespaced(admin.clone(), "default"), role).await;
    let binding = json!({
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jane"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    create(Api::<RoleBinding>::namespaced(admin, "default"), binding).await;

    // An authoriser of its own for each look: verdicts are kept, and kube-apiserver learns of roles a moment
    // later.
    let client = server_client(control_plane).await;
    let user = |name: &str| UserInfo { name: name.to_owned(), ..UserInfo::default() };
    let eviction = |namespace: &str| {
        ResourceAttributes::new("", "v1", "pods")
            .subresource("eviction")
            .in_namespace(namespace)
            .named("db-0")
    };
    let responder = |name: &str| {
        ResourceAttributes::new("example.dev", "v1", "responders").in_namespace("default").named(name)
    };
    eventually(Duration::from_secs(30), "jane's role", || async {
        let may = Attributes::of_resource(user("jane"), "create", eviction("default"));
        match SubjectAccessReviewAuthorizer::new(client.clone()).authorize(&may).await {
            Ok(Verdict::Allowed) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();

    let authorizer = SubjectAccessReviewAuthorizer::new(client);
    let cases = [
        (Attributes::of_resource(user("jane"), "respond", responder("db.acme.io/failover")), true),
        (Attributes::of_resource(user("jane"), "respond", responder("db.acme.io/other")), false),
        (Attributes::of_resource(user("jane"), "create", eviction("kube-system")), false),
        (Attributes::of_resource(user("jane"), "delete", eviction("default")), false),
        (Attributes::of_resource(user("joe"), "create", eviction("default")), false),
        (Attributes::of_path(UserInfo::anonymous(), "get", "/version"), true),
        (Attributes::of_path(UserInfo::anonymous(), "get", "/metrics"), false),
    ];
    for (attributes, allowed) in cases {
        let verdict = authorizer.authorize(&attributes).await.unwrap();
        assert_eq!(verdict.is_allowed(), allowed, "{attributes:?}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_ca_added_to_the_config_map_is_honoured_without_a_restart() {
    let control_plane = control_plane().await;
    let shutdown = CancellationToken::new();
    let _stop = shutdown.clone().drop_guard();
    let authentication =
        DelegatedAuthentication::start(server_client(control_plane).await, shutdown).await.unwrap();

    let proxy = control_plane.front_proxy_pki().client("front-proxy-client", None).unwrap();
    let user =
        authentication.authenticate(&remote_user("jane"), &certificate(&proxy)).await.unwrap().unwrap();
    assert_eq!(user.name, "jane");
    let not_allowed = control_plane.front_proxy_pki().client("somebody", None).unwrap();
    let refused = authentication.authenticate(&remote_user("jane"), &certificate(&not_allowed)).await;
    assert!(matches!(refused, Err(AuthError::InvalidCredentials { .. })), "{refused:?}");
    let client = control_plane.pki().client("joe", Some("shop:admins")).unwrap();
    let user =
        authentication.authenticate(&remote_user("jane"), &certificate(&client)).await.unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.is_in_group("shop:admins")), ("joe", true));

    let rotated = Pki::new("front-proxy-ca-2").unwrap();
    let next_proxy = certificate(&rotated.client("front-proxy-client", None).unwrap());
    let refused = authentication.authenticate(&remote_user("jane"), &next_proxy).await;
    assert!(matches!(refused, Err(AuthError::InvalidCredentials { .. })), "{refused:?}");

    let config_maps = Api::<ConfigMap>::namespaced(control_plane.client().unwrap(), "kube-system");
    let both = format!("{}{}", control_plane.front_proxy_pki().ca_pem(), rotated.ca_pem());
    let patch = Patch::Merge(json!({"data": {"requestheader-client-ca-file": both}}));
    config_maps.patch("extension-apiserver-authentication", &PatchParams::default(), &patch).await.unwrap();
    eventually(Duration::from_secs(30), "the new CA in force", || async {
        authentication.authenticate(&remote_user("jane"), &next_proxy).await
    })
    .await
    .unwrap();
    authentication.authenticate(&remote_user("jane"), &certificate(&proxy)).await.unwrap();
}
