//! Pods, budgets and what becomes of them.

use std::time::Duration;

use anyhow::{Context, bail};
use controlplane::{TemporaryNamespace, eventually};
use evacuation_api::{Evacuation, RESPONDERS_ANNOTATION};
use evacuation_client::End;
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::Platform;

/// Time limit for a pod to be ready or gone on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Description of a pod.
#[derive(Clone, Debug, Default)]
pub struct PodSpec {
    /// The annotation `evacuation.dev/responders`, as text.
    pub responders: Option<String>,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Further annotations.
    pub annotations: Vec<(String, String)>,
    /// The node it runs on; the scheduler's choice without one.
    pub node: Option<String>,
    /// The PodGroup it belongs to, if any.
    pub group: Option<String>,
    /// The service account it runs as; `default` without one.
    pub service_account: Option<String>,
    /// The CPUs it requests, if any.
    pub cpus: Option<u32>,
}

impl PodSpec {
    /// A pod whose app answers by watching.
    pub fn watching() -> Self {
        Self::registered(&json!([{"name": "self"}]))
    }

    /// A pod whose app answers over HTTP on that port of its IP.
    pub fn pushed(port: u16) -> Self {
        Self::registered(&json!([{"name": "self", "http": {"port": port, "path": "/evacuation"}}]))
    }

    /// A pod with that annotation.
    pub fn registered(responders: &Value) -> Self {
        Self { responders: Some(responders.to_string()), ..Self::default() }
    }

    /// The same with one more label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same with one more annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The same on that node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// The same in that PodGroup.
    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// The same with a request for that many CPUs. A node of kwok has 1,000.
    #[must_use]
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = Some(cpus);
        self
    }

    fn manifest(&self, name: &str) -> anyhow::Result<Pod> {
        let responders = self.responders.iter().map(|text| (RESPONDERS_ANNOTATION, text.as_str()));
        let others = self.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let annotations: serde_json::Map<_, _> =
            responders.chain(others).map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let labels: serde_json::Map<_, _> =
            self.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let resources = self.cpus.map(|cpus| json!({"requests": {"cpu": cpus.to_string()}}));
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {
                "nodeName": self.node,
                "schedulingGroup": self.group.as_ref().map(|group| json!({"podGroupName": group})),
                "serviceAccountName": self.service_account,
                "containers": [{"name": "app", "image": "app", "resources": resources}],
            },
        });
        Ok(serde_json::from_value(pod)?)
    }
}

/// The pods and Evacuations of one test's namespace.
pub struct Pods {
    client: Client,
    namespace: TemporaryNamespace,
}

impl std::fmt::Debug for Pods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pods").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Platform {
    /// A namespace for one test. It dumps its state when the test fails.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be created.
    pub async fn namespace(&self, prefix: &str) -> anyhow::Result<Pods> {
        let mut namespace = self.control_plane().namespace(prefix).await?;
        namespace.also_dump("apis/evacuation.dev/v1alpha1", "evacuations");
        Ok(Pods { client: self.client()?, namespace })
    }
}

impl Pods {
    /// The namespace's name.
    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    /// The client of `admin`, whose connections the whole test shares.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The pods.
    pub fn api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    /// The Evacuations.
    pub fn evacuations(&self) -> Api<Evacuation> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    /// Creates a pod and waits until it is ready; it then has an IP.
    ///
    /// kwok deletes pods by name and repeats itself, so that it can delete the pod that has taken the name.
    /// That pod is then created again.
    ///
    /// # Errors
    ///
    /// Fails when it does not become ready.
    pub async fn create(&self, name: &str, spec: &PodSpec) -> anyhow::Result<Pod> {
        let (api, manifest, post) = (self.api(), spec.manifest(name)?, PostParams::default());
        api.create(&post, &manifest).await.context("the pod was not created")?;
        let pod = eventually(PATIENCE, "the pod is ready", || async {
            if let Some(pod) = api.get_opt(name).await? {
                return if_ready(pod);
            }
            api.create(&post, &manifest).await?;
            bail!("it was deleted")
        });
        Ok(pod.await?)
    }

    /// Waits until a pod is ready.
    ///
    /// # Errors
    ///
    /// Fails when it does not become ready.
    pub async fn ready(&self, name: &str) -> anyhow::Result<Pod> {
        let api = self.api();
        let pod = eventually(PATIENCE, "the pod is ready", || async { if_ready(api.get(name).await?) });
        Ok(pod.await?)
    }

    /// Waits until the pod with that UID is gone.
    ///
    /// # Errors
    ///
    /// Fails when it stays.
    pub async fn gone(&self, pod: &Pod) -> anyhow::Result<()> {
        self.gone_within(PATIENCE, pod).await
    }

    /// Waits until the pod with that UID is gone, for as long as `patience`.
    ///
    /// # Errors
    ///
    /// Fails when it stays.
    pub async fn gone_within(&self, patience: Duration, pod: &Pod) -> anyhow::Result<()> {
        let api = self.api();
        let gone = eventually(patience, "the pod is gone", || async {
            match api.get_opt(&pod.name_any()).await? {
                Some(found) if found.uid() == pod.uid() => bail!("it is there"),
                _ => Ok(()),
            }
        });
        Ok(gone.await?)
    }

    /// Creates a budget for the pods with that label.
    ///
    /// # Errors
    ///
    /// Fails when it does not count its pods.
    pub async fn budget(&self, name: &str, label: (&str, &str), max_unavailable: i32) -> anyhow::Result<()> {
        let budget = json!({
            "metadata": {"name": name},
            "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {label.0: label.1}}},
        });
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), self.namespace());
        api.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
        let counted = eventually(PATIENCE, "the budget counts", || async {
            let status = api.get(name).await?.status.unwrap_or_default();
            if status.observed_generation.is_some() { Ok(()) } else { bail!("{status:?}") }
        });
        Ok(counted.await?)
    }

    /// Waits until an Evacuation is as wanted.
    ///
    /// # Errors
    ///
    /// Fails when it does not become so. The error holds its last state.
    pub async fn until(
        &self,
        evacuation: &str,
        what: &str,
        wanted: impl Fn(&Evacuation) -> bool,
    ) -> anyhow::Result<Evacuation> {
        let api = self.evacuations();
        let found = eventually(PATIENCE, what, || async {
            let found = api.get(evacuation).await?;
            if wanted(&found) { Ok(found) } else { bail!("{}", serde_json::to_string(&found.status)?) }
        });
        Ok(found.await?)
    }

    /// Waits until an Evacuation has ended.
    ///
    /// # Errors
    ///
    /// Fails when it does not end.
    pub async fn ended(&self, evacuation: &str) -> anyhow::Result<End> {
        let found = self.until(evacuation, "the evacuation has ended", |e| End::of(e).is_some()).await?;
        End::of(&found).context("it has ended")
    }
}

/// The pod, when it is ready and has an IP.
fn if_ready(pod: Pod) -> anyhow::Result<Pod> {
    let status = pod.status.as_ref();
    if is_ready(&pod) && status.is_some_and(|status| status.pod_ip.is_some()) {
        return Ok(pod);
    }
    bail!("phase {:?}", status.and_then(|status| status.phase.as_ref()))
}

/// Returns whether a pod is ready and not terminating.
pub fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none() && conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}
