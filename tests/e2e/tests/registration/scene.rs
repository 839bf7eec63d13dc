//! One test's namespace on the shared system.

use std::time::Duration;

use anyhow::bail;
use controlplane::{ControlPlane, eventually};
use evacuation_api::{Evacuation, EvacuationResponder, ResponderStatus};
use evacuation_client::{Answer, Question, Responder};
use evacuation_e2e::{Platform, PlatformOptions, PodSpec, Pods, shared_with};
use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    core::v1::{Event, Pod},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// The responder of most tests.
pub(crate) const FAILOVER: &str = "db.acme.io/failover";
/// Cluster IPs at which the tests themselves can listen.
const SERVICES: &str = "127.96.0.0/16";

fn options() -> PlatformOptions {
    PlatformOptions {
        control_plane: ControlPlane::builder().apiserver_args(&["--service-cluster-ip-range", SERVICES]),
        controller_args: vec![format!("--push-allow-cidr={SERVICES}")],
        ..PlatformOptions::default()
    }
}

/// One test's namespace on the shared system.
pub(crate) struct Scene {
    pub(crate) platform: &'static Platform,
    pub(crate) pods: Pods,
}

impl Scene {
    pub(crate) async fn new(prefix: &str) -> Self {
        let platform = shared_with(options).await.unwrap();
        let pods = platform.namespace(prefix).await.unwrap();
        Self { platform, pods }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    /// The client of `admin`, who may do everything.
    pub(crate) fn admin(&self) -> Client {
        self.platform.client().unwrap()
    }

    /// `admin` creates an object.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.admin(), self.namespace());
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// `admin` registers a responder for the pods labelled `app: db`, unless the spec says which.
    pub(crate) async fn register(&self, name: &str, responder: &str, more: Value) -> EvacuationResponder {
        let mut spec = more;
        spec["name"] = json!(responder);
        if spec.get("selector").is_none() {
            spec["selector"] = json!({"matchLabels": {"app": "db"}});
        }
        self.create(json!({"metadata": {"name": name}, "spec": spec})).await
    }

    /// A pod labelled `app: db` that is soon ready and soon gone.
    pub(crate) async fn pod(&self, spec: PodSpec) -> Pod {
        let spec = spec
            .label("app", "db")
            .annotation("controlplane.test/running-after", "100ms")
            .annotation("controlplane.test/gone-after", "100ms");
        self.pods.create("db-0", &spec).await.unwrap()
    }

    /// `admin` asks a pod to move.
    pub(crate) async fn ask(&self, pod: &Pod) -> Evacuation {
        let wanted = json!({
            "metadata": {"generateName": "e-"},
            "spec": {"target": {"pod": {"name": pod.name_any()}}, "requesters": [{"name": "test.evacuation.dev/asks"}]},
        });
        let wanted = serde_json::from_value(wanted).unwrap();
        let api = self.pods.evacuations();
        api.create(&PostParams::default(), &wanted).await.unwrap()
    }

    /// Waits until it is fixed who is asked.
    pub(crate) async fn started(&self, evacuation: &Evacuation) -> Vec<ResponderStatus> {
        let found = self
            .pods
            .until(&evacuation.name_any(), "it is fixed who is asked", |e| {
                e.status.as_ref().is_some_and(|status| status.responders.is_some())
            })
            .await
            .unwrap();
        responders(&found)
    }

    /// Waits until the pod is evacuated.
    pub(crate) async fn evacuated(&self, evacuation: &Evacuation) -> Vec<ResponderStatus> {
        let found = self
            .pods
            .until(&evacuation.name_any(), "the pod is evacuated", |e| {
                let conditions = e.status.iter().flat_map(|status| &status.conditions);
                conditions.into_iter().any(|c| c.type_ == "Evacuated" && c.status == "True")
            })
            .await
            .unwrap();
        responders(&found)
    }

    /// A user that may watch Evacuations and answer by the name [`FAILOVER`].
    pub(crate) async fn operator(&self) -> Client {
        let name = format!("operator-of-{}", self.namespace());
        let control_plane = self.platform.control_plane();
        let client = control_plane.client_for_user(&name, None).await.unwrap();
        let right = json!({"apiGroups": ["evacuation.dev"], "resources": ["responders"], "verbs": ["respond"],
            "resourceNames": [FAILOVER]});
        let role: Role = self.create(json!({"metadata": {"name": "failover"}, "rules": [right]})).await;
        for (kind, role) in [("Role", role.name_any()), ("ClusterRole", "evacuation:responder".to_owned())] {
            self.create::<RoleBinding>(json!({
                "metadata": {"generateName": "operator-"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
            }))
            .await;
        }
        for (verb, resource, object) in [("respond", "responders", FAILOVER), ("watch", "evacuations", "")] {
            let review = json!({"metadata": {}, "spec": {"user": name, "resourceAttributes": {
                "namespace": self.namespace(), "group": "evacuation.dev", "verb": verb, "resource": resource,
                "name": object}}});
            self.until_allowed(&review).await;
        }
        client
    }

    async fn until_allowed(&self, review: &Value) {
        let api: Api<SubjectAccessReview> = Api::all(self.admin());
        let review: SubjectAccessReview = serde_json::from_value(review.clone()).unwrap();
        let allowed = eventually(PATIENCE, "the rights are known", || async {
            let answer = api.create(&PostParams::default(), &review).await?;
            if answer.status.is_some_and(|status| status.allowed) {
                return Ok(());
            }
            bail!("not yet")
        });
        allowed.await.unwrap();
    }

    /// An operator that accepts by the name [`FAILOVER`], until it is dropped.
    pub(crate) async fn accepting_operator(&self) -> Running {
        let client = self.operator().await;
        let responder = Responder::named(client, FAILOVER, Some(self.namespace()));
        Running(tokio::spawn(responder.run(|_: Question| async { Answer::accept() })))
    }

    /// Waits for an Event of that reason, and returns what it says.
    pub(crate) async fn event(&self, reason: &str) -> String {
        let api: Api<Event> = Api::namespaced(self.admin(), self.namespace());
        let found = eventually(PATIENCE, reason, || async {
            let events = api.list(&ListParams::default()).await?.items;
            let mut events = events.into_iter();
            match events.find(|event| event.reason.as_deref() == Some(reason)) {
                Some(event) => Ok(event.message.unwrap_or_default()),
                None => bail!("no such event"),
            }
        });
        found.await.unwrap()
    }
}

/// A task that ends when this is dropped.
pub(crate) struct Running(pub(crate) JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn responders(evacuation: &Evacuation) -> Vec<ResponderStatus> {
    let status = evacuation.status.as_ref();
    status.and_then(|status| status.responders.clone()).unwrap_or_default()
}

pub(crate) fn names(responders: &[ResponderStatus]) -> Vec<&str> {
    responders.iter().map(|responder| responder.name.as_str()).collect()
}
