//! The pods that are drained: Deployments spread over the nodes, and their budget.

use std::time::Duration;

use anyhow::{Context, ensure};
use controlplane::eventually;
use evacuation_e2e::{Platform, Pods};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

/// Time limit for all pods to be ready or gone.
const LONGEST: Duration = Duration::from_mins(15);
/// Label of all pods. They are spread over the nodes together.
const APP: (&str, &str) = ("app", "web");

/// The Deployments of a namespace.
pub(super) struct Workload {
    pods: Pods,
    client: Client,
    /// Number of replicas of each Deployment `web-1`, `web-2`, ...
    deployments: Vec<usize>,
}

impl Workload {
    /// Makes a namespace without pods.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be created.
    pub(super) async fn new(platform: &Platform, prefix: &str) -> anyhow::Result<Self> {
        let pods = platform.namespace(prefix).await?;
        Ok(Self { pods, client: platform.client()?, deployments: Vec::new() })
    }

    /// Returns the namespace.
    pub(super) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    /// Creates one more Deployment.
    ///
    /// # Errors
    ///
    /// Fails when the API refuses it.
    pub(super) async fn deploy(&mut self, replicas: usize) -> anyhow::Result<()> {
        let name = format!("web-{}", self.deployments.len() + 1);
        let labels = json!({APP.0: APP.1, "deployment": name});
        let spread = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                             "whenUnsatisfiable": "ScheduleAnyway",
                             "labelSelector": {"matchLabels": {APP.0: APP.1}}}]);
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "topologySpreadConstraints": spread, "containers": [{"name": "app", "image": "app"}]}}}});
        self.api::<Deployment>().create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
        self.deployments.push(replicas);
        Ok(())
    }

    /// Waits until every replica is ready and no other pod is left.
    ///
    /// # Errors
    ///
    /// Fails when that takes too long.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        let deployments = self.api::<Deployment>();
        for (number, replicas) in self.deployments.iter().enumerate() {
            let name = format!("web-{}", number + 1);
            let ready = async || {
                let status = deployments.get(&name).await?.status.unwrap_or_default();
                let ready = usize::try_from(status.ready_replicas.unwrap_or(0))?;
                let leaving = status.terminating_replicas.unwrap_or(0);
                ensure!(ready == *replicas && leaving == 0, "{ready} pods are ready, {leaving} leave");
                anyhow::Ok(())
            };
            eventually(LONGEST, "all pods are ready", ready).await?;
        }
        Ok(())
    }

    /// Creates a budget for all pods, and waits until it allows its part.
    ///
    /// # Errors
    ///
    /// Fails when that takes too long.
    pub(super) async fn protect(&self, percent: usize) -> anyhow::Result<()> {
        let budget = json!({"metadata": {"name": "web"}, "spec": {
            "maxUnavailable": format!("{percent}%"), "selector": {"matchLabels": {APP.0: APP.1}}}});
        let budgets = self.api::<PodDisruptionBudget>();
        let budget = budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
        // A share of the pods is rounded up.
        let part = (self.deployments.iter().sum::<usize>() * percent).div_ceil(100);
        let allows = async || {
            let status = budgets.get(&budget.name_any()).await?.status.context("no status")?;
            let allowed = usize::try_from(status.disruptions_allowed.unwrap_or(0))?;
            ensure!(allowed == part, "{allowed} are allowed");
            anyhow::Ok(())
        };
        eventually(LONGEST, "the budget allows its part", allows).await?;
        Ok(())
    }

    /// Returns the name of each pod's node.
    ///
    /// # Errors
    ///
    /// Fails when the pods cannot be listed.
    pub(super) async fn nodes_of_pods(&self) -> anyhow::Result<Vec<String>> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await?.items;
        Ok(pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect())
    }

    /// Deletes the Evacuations, and waits until all pods are ready again. A later drain then meets the same
    /// cluster as the earlier one.
    ///
    /// # Errors
    ///
    /// Fails when that takes too long.
    pub(super) async fn restore(&self) -> anyhow::Result<()> {
        let (evacuations, all) = (self.pods.evacuations(), ListParams::default());
        evacuations.delete_collection(&DeleteParams::default(), &all).await?;
        let gone = async || {
            let left = evacuations.list_metadata(&all).await?.items.len();
            ensure!(left == 0, "{left} Evacuations are left");
            anyhow::Ok(())
        };
        eventually(LONGEST, "all Evacuations are gone", gone).await?;
        self.ready().await
    }

    /// Removes the Deployments, and waits until their pods are gone: the next drain would meet them.
    ///
    /// # Errors
    ///
    /// Fails when that takes too long.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        let all = ListParams::default();
        self.api::<Deployment>().delete_collection(&DeleteParams::default(), &all).await?;
        let gone = async || {
            let left = self.api::<Pod>().list_metadata(&all).await?.items.len();
            ensure!(left == 0, "{left} pods are left");
            anyhow::Ok(())
        };
        Ok(eventually(LONGEST, "all pods are gone", gone).await?)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), self.namespace())
    }
}
