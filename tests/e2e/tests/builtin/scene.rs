//! One test's namespace, on the shared system or on one of its own.

use std::time::Duration;

use controlplane::eventually;
use evacuation_api::{Answer, Evacuation, EvacuationResponder, ResponderState, ResponderStatus};
use evacuation_client::{End, EvacuationHandle, Requester};
use evacuation_e2e::{Platform, PlatformOptions, Pods, shared};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Who asks in these tests.
const REQUESTER: &str = "test.evacuation.dev/asks";

/// One test's namespace.
pub(crate) struct Scene {
    // Dropped in this order: the namespace is removed through the platform.
    pub(crate) pods: Pods,
    own: Option<Box<Platform>>,
    shared: Option<&'static Platform>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(own) = self.own.as_ref().filter(|_| std::thread::panicking()) {
            own.control_plane().keep();
            eprintln!("logs: {}", own.control_plane().logs().display());
        }
    }
}

impl Scene {
    /// A namespace on the shared system.
    pub(crate) async fn new(prefix: &str) -> Self {
        let platform = shared().await.unwrap();
        Self { pods: platform.namespace(prefix).await.unwrap(), own: None, shared: Some(platform) }
    }

    /// A namespace on a system of its own, whose parts can be stopped.
    pub(crate) async fn alone(prefix: &str) -> Self {
        let platform = Platform::start(PlatformOptions::default()).await.unwrap();
        Self { pods: platform.namespace(prefix).await.unwrap(), own: Some(Box::new(platform)), shared: None }
    }

    pub(crate) fn platform(&self) -> &Platform {
        match (&self.own, self.shared) {
            (Some(own), _) => own,
            (None, Some(shared)) => shared,
            (None, None) => unreachable!("a scene has a platform"),
        }
    }

    /// The client of `admin`, who may do everything.
    pub(crate) fn admin(&self) -> Client {
        self.platform().client().unwrap()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.admin(), self.namespace())
    }

    /// `admin` creates an object.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// `admin` registers a responder for every pod of the namespace.
    pub(crate) async fn register(&self, responder: &str) {
        let spec = json!({"selector": {}, "name": responder});
        self.create::<EvacuationResponder>(json!({"metadata": {"name": "built-in"}, "spec": spec})).await;
    }

    /// `admin` asks a pod to move.
    pub(crate) async fn ask(&self, pod: &Pod) -> EvacuationHandle {
        Requester::new(self.admin(), REQUESTER).evacuate(self.namespace(), &pod.name_any()).await.unwrap()
    }

    /// Waits until the one responder's part is as wanted.
    pub(crate) async fn until(
        &self,
        evacuation: &EvacuationHandle,
        what: &str,
        wanted: impl Fn(&ResponderStatus) -> bool,
    ) -> ResponderStatus {
        let found =
            self.pods.until(evacuation.name(), what, |e| responder(e).is_some_and(&wanted)).await.unwrap();
        responder(&found).unwrap().clone()
    }

    /// Waits for an answer.
    pub(crate) async fn answered(&self, evacuation: &EvacuationHandle, answer: Answer) -> ResponderStatus {
        let what = format!("the answer is {answer:?}");
        self.until(evacuation, &what, |responder| responder.answer == Some(answer)).await
    }

    /// Waits until the pod was evicted.
    pub(crate) async fn evicted(&self, evacuation: &EvacuationHandle) {
        let end = self.pods.ended(evacuation.name()).await.unwrap();
        assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    }

    /// Waits until the responder has said that it knows of the cancellation.
    pub(crate) async fn acknowledged(&self, evacuation: &EvacuationHandle) {
        self.until(evacuation, "the cancellation is acknowledged", |responder| {
            responder.state == ResponderState::Canceled && responder.cancellation_acknowledged
        })
        .await;
    }

    /// Waits until a pod is as wanted, and returns it.
    pub(crate) async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        let api = self.pods.api();
        let found = eventually(PATIENCE, what, || async {
            match api.get(name).await {
                Ok(pod) if wanted(&pod) => Ok(pod),
                Ok(pod) => Err(serde_json::to_string(&pod.metadata).unwrap()),
                Err(error) => Err(error.to_string()),
            }
        });
        found.await.unwrap()
    }

    /// Sets annotations of a pod; null removes one.
    pub(crate) async fn annotate(&self, pod: &Pod, annotations: Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.pods.api().patch(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Makes a node take no pods, or take them again.
    pub(crate) async fn cordon(&self, node: &str, cordoned: bool) {
        let nodes: Api<Node> = Api::all(self.admin());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
        nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    /// A node for this test alone, which pods choose by the label `test` of this namespace's name.
    pub(crate) async fn own_node(&self) -> String {
        let name = format!("node-of-{}", self.namespace());
        let labels = [("test", self.namespace())];
        self.platform().control_plane().add_node(&name, &labels).await.unwrap();
        name
    }

    /// Removes an Evacuation without anybody learning of it.
    pub(crate) async fn remove_at_once(&self, evacuation: &EvacuationHandle) {
        let api = self.pods.evacuations();
        api.delete(evacuation.name(), &DeleteParams::default()).await.unwrap();
        let gone = eventually(PATIENCE, "the evacuation is gone", || async {
            let Some(mut found) = api.get_opt(evacuation.name()).await.unwrap() else {
                return Ok(());
            };
            found.metadata.finalizers = None;
            match api.replace(evacuation.name(), &PostParams::default(), &found).await {
                Ok(_) => Err("its finalizer is being removed".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        gone.await.unwrap();
    }

    /// Kills the controller.
    pub(crate) fn kill_controller(&self) {
        self.platform().controllers()[0].kill().unwrap();
    }

    /// Starts it again, with nobody's lease to wait for.
    pub(crate) async fn start_controller(&self) {
        let leases: Api<Lease> = Api::namespaced(self.admin(), "evacuation-system");
        leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
        self.platform().controllers()[0].start().unwrap();
    }
}

/// The part of the first responder.
fn responder(evacuation: &Evacuation) -> Option<&ResponderStatus> {
    evacuation.status.as_ref()?.responders.as_ref()?.first()
}

/// An annotation of a pod.
pub(crate) fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.annotations().get(name).map(String::as_str)
}
