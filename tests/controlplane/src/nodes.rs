use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::{Node, NodeSpec, ServiceAccount, Taint};
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::component::READY;
use crate::{ControlPlane, Error, Result, eventually};

/// The taint of a node that belongs to one test.
const OWN: &str = "controlplane.test/own";

/// The `tolerations` of pods that may be scheduled on the nodes of [`ControlPlane::add_node`].
pub fn tolerations() -> Value {
    json!([{"key": OWN, "operator": "Exists"}])
}

impl ControlPlane {
    /// Adds `count` nodes named `node-1`, `node-2`, ... and waits until pods can be scheduled on them.
    /// Returns their names.
    ///
    /// # Errors
    ///
    /// Fails when one cannot be created or does not become ready.
    pub async fn add_nodes(&self, count: usize) -> Result<Vec<String>> {
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let name = format!("node-{}", self.nodes_made.fetch_add(1, Ordering::Relaxed) + 1);
            self.create_node(&name, &[], &[]).await?;
            names.push(name);
        }
        for name in &names {
            self.node_ready(name).await?;
        }
        Ok(names)
    }

    /// Adds a node of this name with these labels, beside the usual ones, and waits until pods can be
    /// scheduled on it. It belongs to its test: the scheduler puts only pods with [`tolerations`] on it.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be created or does not become ready.
    pub async fn add_node(&self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        self.create_node(name, labels, &[OWN]).await?;
        self.node_ready(name).await
    }

    async fn create_node(&self, name: &str, labels: &[(&str, &str)], taints: &[&str]) -> Result<()> {
        // A value of a label has at most 63 bytes.
        let hostname = if name.len() > 63 { name.split('.').next().unwrap_or(name) } else { name };
        let usual = [
            ("kubernetes.io/hostname", hostname),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ];
        let strings = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let mut labels = strings(labels);
        labels.extend(strings(&usual));
        let taint = |key: &&str| Taint {
            key: (*key).to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        let taints = taints.iter().map(taint).collect();
        let node = Node {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels),
                annotations: Some(strings(&[("kwok.x-k8s.io/node", "fake")])),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { taints: Some(taints), ..NodeSpec::default() }),
            ..Node::default()
        };
        let nodes: Api<Node> = Api::all(self.client()?);
        let created = nodes.create(&PostParams::default(), &node).await;
        created.map(drop).map_err(Error::request("create", format!("node {name}")))
    }

    async fn node_ready(&self, name: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client()?);
        eventually(READY, &format!("node {name} is ready and has no taint of others"), async || {
            let node = nodes.get(name).await.map_err(|error| error.to_string())?;
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let ready =
                conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
            if ready && taints.iter().all(|taint| taint.key == OWN) {
                Ok(())
            } else {
                Err(format!("ready: {ready}, taints: {taints:?}"))
            }
        })
        .await?;
        Ok(())
    }

    pub(crate) async fn service_account_exists(&self, namespace: &str, name: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client()?, namespace);
        let what = format!("service account {name} of namespace {namespace}");
        eventually(READY, &what, async || accounts.get(name).await.map(drop)).await?;
        Ok(())
    }
}
