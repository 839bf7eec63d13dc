//! A drain beside an attack or a fault that does not concern it.

use evacuation_api::Evacuation;
use evacuation_client::{Answer, Responder};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

use super::{ASKER, Drainer, Running, Scene, entry, in_millis, is_ready, quick, received, wanting};
use crate::{PodSpec, Pods, pod_client};

/// Time until the deadline of the pod whose app is silent, in milliseconds.
const DEADLINE: i64 = 3_000;

/// A namespace with a node of its own: one pod has no responder, the app of the second accepts, that of the
/// third is silent.
#[derive(Debug)]
pub struct Bystander {
    pods: Pods,
    node: String,
    drainer: Drainer,
    _app: Running,
}

impl Bystander {
    /// The user that drains.
    pub fn drainer(&self) -> &Drainer {
        &self.drainer
    }

    /// Brings the pods onto a new node.
    pub async fn new(scene: &Scene) -> Self {
        let pods = scene.platform().namespace("bystander").await.unwrap();
        let node = format!("node-of-{}", pods.namespace());
        scene.control_plane().add_node(&node, &[]).await.unwrap();
        pods.create("plain", &quick(PodSpec::default()).on(&node)).await.unwrap();
        let watching = pods.create("watching", &quick(PodSpec::watching()).on(&node)).await.unwrap();
        pods.create("silent", &quick(PodSpec::watching())).await.unwrap();
        let client = pod_client(scene.platform(), &watching).await.unwrap();
        let app = tokio::spawn(Responder::of_pod(client).run(|_| async { Answer::accept() }));
        let drainer = scene.drainer().await;
        let user = &drainer.user.name;
        scene.bind_in(pods.namespace(), user, "ClusterRole", "evacuation:requester").await;
        let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
        scene.decided_in(pods.namespace(), user, &right, true).await;
        Self { pods, node, drainer, _app: app.into() }
    }

    /// Drains the node, and evicts the pod whose app is silent at its deadline. Each must succeed, by one
    /// eviction that comes after the answer or the deadline.
    pub async fn drains(&self, scene: &Scene) {
        let entry = entry(ASKER, json!({"deadline": in_millis(DEADLINE), "atDeadline": "Evict"}));
        let wanted = wanting("silent", &[entry]);
        let api: Api<Evacuation> = Api::namespaced(self.drainer.user.client.clone(), self.pods.namespace());
        let silent = api.create(&PostParams::default(), &wanted).await.unwrap();
        self.drainer.drains(scene, &self.node).await;
        self.pods.ended(&silent.name_any()).await.unwrap();
        let left = self.pods.api().list(&ListParams::default()).await.unwrap().items;
        let left: Vec<_> = left.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any).collect();
        assert_eq!(left, Vec::<String>::new(), "every pod moved");
        self.were_evicted(scene, &silent);
    }

    /// Asserts by the audit log that each pod was evicted once, and none too early.
    fn were_evicted(&self, scene: &Scene, silent: &Evacuation) {
        let evicted = |pod| scene.evicted_once_in(self.pods.namespace(), pod);
        let mut answers = scene.control_plane().audit_events().unwrap();
        answers.retain(|event| {
            event.resource() == "selfevacuations"
                && event.subresource() == "respond"
                && event.namespace() == self.pods.namespace()
        });
        let answered = answers.iter().map(received).min().expect("the app answered");
        assert!(answered <= evicted("watching"), "the app answered at {answered}");
        let deadline = silent.spec.requesters[0].deadline.unwrap().time();
        assert!(deadline <= evicted("silent"), "the deadline was {deadline}");
        evicted("plain");
    }
}
