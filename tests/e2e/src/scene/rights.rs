//! Users and service accounts of a scene, and their rights.

use std::path::PathBuf;

use anyhow::bail;
use controlplane::{eventually, output_of};
use evacuation_api::NodeEvacuation;
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{PATIENCE, Scene};

/// A user of one scene.
pub struct User {
    /// The user name.
    pub name: String,
    /// The user's client.
    pub client: Client,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A user that may drain every node and has no other right.
#[derive(Debug)]
pub struct Drainer {
    /// The user.
    pub user: User,
    kubeconfig: PathBuf,
}

impl Drainer {
    /// Drains a node by `kubectl evacuate node`, which must succeed.
    pub async fn drains(&self, scene: &Scene, node: &str) {
        let mut command = scene.platform().kubectl_command();
        command.env("KUBECONFIG", &self.kubeconfig);
        command.args(["evacuate", "node", node, "--force", "--on-refusal=override"]);
        let drained = output_of("kubectl", command).await.unwrap();
        assert!(drained.success(), "{drained:?}");
    }

    /// Creates the drain of a node that [`Self::drains`] returns to. It does not begin before that.
    pub async fn prepares(&self, node: &str) -> NodeEvacuation {
        let drain = json!({
            "metadata": {"generateName": "prepared-"},
            "spec": {
                "nodes": {"names": [node]}, "paused": true,
                "pods": {"unmanaged": "Evict", "daemonSets": "Refuse"}, "requester": {"onRefusal": "Override"},
            },
        });
        let drain = serde_json::from_value(drain).unwrap();
        self.node_evacuations().create(&PostParams::default(), &drain).await.unwrap()
    }

    /// Lets a prepared drain begin.
    pub async fn resumes(&self, drain: &NodeEvacuation) {
        let patch = Patch::Merge(json!({"spec": {"paused": false}}));
        let params = PatchParams::default();
        self.node_evacuations().patch(&drain.name_any(), &params, &patch).await.unwrap();
    }

    fn node_evacuations(&self) -> Api<NodeEvacuation> {
        Api::all(self.user.client.clone())
    }
}

impl Scene {
    /// Makes a user that may drain every node.
    pub async fn drainer(&self) -> Drainer {
        let user = self.user("drainer", &[]).await;
        let binding = json!({
            "metadata": {"name": user.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "evacuation:node-drainer"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin());
        let binding = serde_json::from_value(binding).unwrap();
        match bindings.create(&PostParams::default(), &binding).await {
            // It is the user of the scene's other bystander, too.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => drop(created.unwrap()),
        }
        let right = json!({"group": "", "resource": "pods", "subresource": "eviction", "verb": "create"});
        self.decided(&user.name, &right, true).await;
        let right = json!({"group": "evacuation.dev", "resource": "nodeevacuations", "verb": "create"});
        self.decided(&user.name, &right, true).await;
        let kubeconfig = self.control_plane().kubeconfig_for_user(&user.name, None).unwrap();
        Drainer { user, kubeconfig }
    }

    /// Makes a user with these cluster roles in the namespace.
    pub async fn user(&self, name: &str, roles: &[&str]) -> User {
        let name = format!("{name}-of-{}", self.namespace());
        let client = self.control_plane().client_for_user(&name, None).await.unwrap();
        let user = User { name, client };
        for role in roles {
            self.bind(&user.name, "ClusterRole", role).await;
        }
        if roles.contains(&"evacuation:requester") {
            let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
            self.decided(&user.name, &right, true).await;
        }
        user
    }

    /// Gives a user one more right: the rule of a role.
    pub async fn grant(&self, user: &str, rule: Value) {
        let wanted = json!({"metadata": {"generateName": "right-"}, "rules": [rule]});
        let created: Role = self.create(wanted).await;
        self.bind(user, "Role", &created.name_any()).await;
        let first = |list: &str| rule[list][0].clone();
        let named = rule["resources"][0].as_str().unwrap();
        let (resource, subresource) = named.split_once('/').unwrap_or((named, ""));
        let right = json!({
            "group": first("apiGroups"), "resource": resource, "subresource": subresource,
            "verb": first("verbs"), "name": first("resourceNames"),
        });
        self.decided(user, &right, true).await;
    }

    /// Binds a user, or the service account `system:serviceaccount:NAMESPACE:NAME`, to a role.
    pub async fn bind(&self, user: &str, kind: &str, role: &str) {
        self.bind_in(self.namespace(), user, kind, role).await;
    }

    /// The same in another namespace.
    pub async fn bind_in(&self, namespace: &str, user: &str, kind: &str, role: &str) {
        let binding = json!({
            "metadata": {"generateName": "binding-"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        let binding = serde_json::from_value(binding).unwrap();
        let bindings: Api<RoleBinding> = Api::namespaced(self.admin(), namespace);
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }

    /// The role bindings of the namespace.
    pub fn bindings(&self) -> Api<RoleBinding> {
        self.api()
    }

    /// Waits until the kube-apiserver knows that a user has a right, or no longer has it.
    pub async fn decided(&self, user: &str, right: &Value, allowed: bool) {
        self.decided_in(self.namespace(), user, right, allowed).await;
    }

    /// The same for a right in another namespace.
    pub async fn decided_in(&self, namespace: &str, user: &str, right: &Value, allowed: bool) {
        let api: Api<SubjectAccessReview> = Api::all(self.admin());
        let mut right = right.clone();
        right["namespace"] = json!(namespace);
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

    /// Creates a service account.
    pub async fn account(&self, name: &str) {
        self.create::<ServiceAccount>(json!({"metadata": {"name": name}})).await;
    }

    /// A client with a token of a service account that is bound to no pod.
    pub async fn unbound(&self, namespace: &str, account: &str) -> Client {
        let token = self.control_plane().service_account_token(namespace, account, None).await.unwrap();
        self.control_plane().client_with_token(&token).await.unwrap()
    }

    /// The controller's own client.
    pub async fn controller(&self) -> Client {
        self.unbound("evacuation-system", "evacuation-controller").await
    }
}
