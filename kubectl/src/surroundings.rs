//! Reads of the surroundings that the judgement of a pod needs: its budgets, and the pods that share them.

use anyhow::Context;
use evacuation_protocol::Surroundings;
use kube::{Api, Client, api::ListParams};

/// Reads the budgets and pods of a namespace.
pub(crate) async fn surroundings(client: &Client, namespace: &str) -> anyhow::Result<Surroundings> {
    let budgets = Api::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    let budgets =
        budgets.with_context(|| format!("poddisruptionbudgets of namespace {namespace} cannot be listed"))?;
    let pods = Api::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    let pods = pods.with_context(|| format!("pods of namespace {namespace} cannot be listed"))?;
    Ok(Surroundings { budgets: budgets.items, pods: pods.items })
}
