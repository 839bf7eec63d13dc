//! Who acts: users with the roles that a test gives them, the apps of pods, and whoever else answers.

use std::collections::BTreeMap;

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{Evacuation, EvacuationResponse, EvacuationResponseStatus, SelfEvacuation};
use evacuation_e2e::pod_client;
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    core::v1::{Pod, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::scene::{PATIENCE, Scene};

/// A user of one test.
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) client: Client,
}

impl Scene {
    /// A user with these cluster roles in the namespace.
    pub(crate) async fn user(&self, name: &str, roles: &[&str]) -> User {
        let name = format!("{name}-of-{}", self.namespace());
        let client = self.platform.control_plane().client_for_user(&name, None).await.unwrap();
        let user = User { name, client };
        for role in roles {
            self.bind(&user.name, "ClusterRole", role).await;
        }
        if roles.contains(&"evacuation:requester") {
            self.may(
                &user.name,
                &json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"}),
            )
            .await;
        }
        user
    }

    /// Gives a user a right of its own: the rule of a role.
    pub(crate) async fn grant(&self, user: &str, rule: Value) {
        let name = self.role_with(&rule).await;
        self.bind(user, "Role", &name).await;
        let first = |list: &str| rule[list][0].clone();
        let (resource, subresource) = rule["resources"][0]
            .as_str()
            .unwrap()
            .split_once('/')
            .map_or((rule["resources"][0].as_str().unwrap(), ""), |parts| parts);
        let right = json!({
            "group": first("apiGroups"), "resource": resource, "subresource": subresource,
            "verb": first("verbs"), "name": first("resourceNames"),
        });
        self.may(user, &right).await;
    }

    async fn role_with(&self, rule: &Value) -> String {
        let wanted = json!({"metadata": {"generateName": "right-"}, "rules": [rule]});
        let wanted = serde_json::from_value(wanted).unwrap();
        let api: Api<Role> = Api::namespaced(self.admin(), self.namespace());
        let created = api.create(&PostParams::default(), &wanted).await.unwrap();
        created.name_any()
    }

    /// Binds a user, or the service account `system:serviceaccount:NAMESPACE:NAME`, to a role.
    pub(crate) async fn bind(&self, user: &str, kind: &str, role: &str) {
        let binding = json!({
            "metadata": {"generateName": "binding-"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let binding = serde_json::from_value(binding).unwrap();
        self.bindings().create(&PostParams::default(), &binding).await.unwrap();
    }

    pub(crate) fn bindings(&self) -> Api<RoleBinding> {
        Api::namespaced(self.admin(), self.namespace())
    }

    /// Waits until the kube-apiserver knows of a right, as it does some milliseconds after the role was bound.
    async fn may(&self, user: &str, right: &Value) {
        self.decided(user, right, true).await;
    }

    /// Waits until the kube-apiserver knows that somebody has a right, or has it no more.
    pub(crate) async fn decided(&self, user: &str, right: &Value, allowed: bool) {
        let api: Api<SubjectAccessReview> = Api::all(self.admin());
        let mut right = right.clone();
        right["namespace"] = json!(self.namespace());
        let review = json!({"metadata": {}, "spec": {"user": user, "resourceAttributes": right}});
        let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
        let decided = eventually(PATIENCE, "the rights are known", || async {
            let answer = api.create(&PostParams::default(), &review).await?;
            if answer.status.is_some_and(|status| status.allowed == allowed) {
                return Ok(());
            }
            bail!("not yet")
        });
        decided.await.unwrap();
    }

    /// A service account.
    pub(crate) async fn account(&self, name: &str) {
        let account = ServiceAccount {
            metadata: kube::api::ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(BTreeMap::new()),
                ..kube::api::ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        let api: Api<ServiceAccount> = Api::namespaced(self.admin(), self.namespace());
        api.create(&PostParams::default(), &account).await.unwrap();
    }

    /// A client with a token of a service account that is bound to no pod.
    pub(crate) async fn unbound(&self, namespace: &str, account: &str) -> Client {
        let control_plane = self.platform.control_plane();
        let token = control_plane.service_account_token(namespace, account, None).await.unwrap();
        control_plane.client_with_token(&token).await.unwrap()
    }

    /// The controller's own client.
    pub(crate) async fn controller(&self) -> Client {
        self.unbound("evacuation-system", "evacuation-controller").await
    }

    /// The client of a pod's app, with the token that is bound to the pod.
    pub(crate) async fn app(&self, pod: &Pod) -> Client {
        pod_client(self.platform, pod).await.unwrap()
    }
}

/// A pod answers an Evacuation of itself.
pub(crate) async fn answer(
    app: &Client,
    to: &Evacuation,
    spec: Value,
) -> kube::Result<EvacuationResponseStatus> {
    let api: Api<SelfEvacuation> = Api::namespaced(app.clone(), &to.namespace().unwrap());
    let body = response(spec);
    let posted: EvacuationResponse =
        api.create_subresource("respond", &to.name_any(), &PostParams::default(), &body).await?;
    Ok(posted.status.unwrap_or_default())
}

/// Anybody answers an Evacuation.
pub(crate) async fn respond(
    client: &Client,
    to: &Evacuation,
    spec: Value,
) -> kube::Result<EvacuationResponseStatus> {
    let api: Api<Evacuation> = Api::namespaced(client.clone(), &to.namespace().unwrap());
    let body = response(spec);
    let posted: EvacuationResponse =
        api.create_subresource("respond", &to.name_any(), &PostParams::default(), &body).await?;
    Ok(posted.status.unwrap_or_default())
}

fn response(spec: Value) -> EvacuationResponse {
    EvacuationResponse::new(serde_json::from_value(spec).unwrap())
}
