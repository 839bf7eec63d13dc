//! One story's namespace on the shared system.

use std::time::Duration;

use controlplane::eventually;
use evacuation_api::{Evacuation, EvacuationResponder, ResponderStatus};
use evacuation_client::{Handler, Requester, Responder};
use evacuation_e2e::{Platform, PodSpec, Pods, pod_client, shared};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// One story's namespace on the shared system.
pub(crate) struct Scene {
    pub(crate) platform: &'static Platform,
    pub(crate) pods: Pods,
}

/// A responder at work. It ends when this is dropped.
pub(crate) struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Scene {
    pub(crate) async fn new(prefix: &str) -> Self {
        let platform = shared().await.unwrap();
        let pods = platform.namespace(prefix).await.unwrap();
        Self { platform, pods }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    pub(crate) fn admin(&self) -> Client {
        self.platform.client().unwrap()
    }

    pub(crate) fn requester(&self, name: &str) -> Requester {
        Requester::new(self.admin(), name)
    }

    /// A pod that is soon ready and soon gone.
    pub(crate) async fn pod(&self, name: &str, spec: PodSpec) -> Pod {
        let spec = ["running-after", "gone-after"]
            .iter()
            .fold(spec, |spec, name| spec.annotation(&format!("controlplane.test/{name}"), "100ms"));
        self.pods.create(name, &spec).await.unwrap()
    }

    /// Has the app of a pod answer so.
    pub(crate) async fn app(&self, pod: &Pod, handler: impl Handler) -> Running {
        let client = pod_client(self.platform, pod).await.unwrap();
        Running(tokio::spawn(Responder::of_pod(client).run(handler)))
    }

    /// Has a responder with a name answer so.
    pub(crate) fn responder(&self, name: &str, handler: impl Handler) -> Running {
        let responder = Responder::named(self.admin(), name, Some(self.namespace()));
        Running(tokio::spawn(responder.run(handler)))
    }

    /// Registers a responder for the pods labelled `app: APP`.
    pub(crate) async fn register(&self, responder: &str, app: &str, priority: i32) {
        let name = responder.replace('/', ".");
        let wanted = json!({
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}, "name": responder, "priority": priority},
        });
        let _: EvacuationResponder = self.create(wanted).await;
    }

    /// `admin` creates an object.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.admin(), self.namespace());
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Waits until that many pods of an app are ready, and those are gone.
    pub(crate) async fn ready_pods(&self, app: &str, count: usize, gone: &[&Pod]) -> Vec<Pod> {
        let (api, params) = (self.pods.api(), ListParams::default().labels(&format!("app={app}")));
        let ready = eventually(PATIENCE, "the pods are ready", || async {
            let all = api.list(&params).await?.items;
            let gone = all.iter().all(|pod| gone.iter().all(|gone| gone.uid() != pod.uid()));
            if gone && all.len() == count && all.iter().all(is_ready) {
                return Ok(all);
            }
            anyhow::bail!("{:?}", all.iter().map(ResourceExt::name_any).collect::<Vec<_>>())
        });
        ready.await.unwrap()
    }

    /// The only pod of an app, once it is ready, and another than that.
    pub(crate) async fn only_pod(&self, app: &str, other_than: Option<&Pod>) -> Pod {
        let gone: Vec<_> = other_than.into_iter().collect();
        self.ready_pods(app, 1, &gone).await.remove(0)
    }

    /// Waits until an Evacuation is as wanted.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Evacuation) -> bool,
    ) -> Evacuation {
        self.pods.until(name, what, wanted).await.unwrap()
    }

    /// Waits for the end, which must have that reason.
    pub(crate) async fn ends(&self, name: &str, reason: &str) -> Evacuation {
        let ended = self.until(name, "it has ended", |e| end(e).is_some()).await;
        assert_eq!(end(&ended), Some(reason), "{:?}", ended.status);
        ended
    }

    /// Whether the very pod is there and was not told to go.
    pub(crate) async fn stays(&self, pod: &Pod) -> bool {
        let found = self.pods.api().get_opt(&pod.name_any()).await.unwrap();
        found.is_some_and(|found| found.uid() == pod.uid() && found.metadata.deletion_timestamp.is_none())
    }

    /// How many evictions of pods of the namespace were asked for.
    pub(crate) fn evictions(&self) -> usize {
        let events = self.platform.control_plane().audit_events().unwrap();
        let of_ours = events
            .iter()
            .filter(|event| event.namespace() == self.namespace() && event.subresource() == "eviction");
        of_ours.count()
    }
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none() && conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

/// The reason for which it ended, if it did.
pub(crate) fn end(evacuation: &Evacuation) -> Option<&str> {
    let conditions = &evacuation.status.as_ref()?.conditions;
    let finished = conditions.iter().find(|c| c.type_ == "Finished")?;
    Some(&finished.reason)
}

/// The responder of that name.
pub(crate) fn responder<'a>(evacuation: &'a Evacuation, name: &str) -> &'a ResponderStatus {
    let status = evacuation.status.as_ref().unwrap();
    let mut all = status.responders.iter().flatten();
    all.find(|responder| responder.name == name).unwrap()
}
