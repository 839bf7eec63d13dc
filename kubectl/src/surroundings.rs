//! Reads of the surroundings that the judgement of a pod needs: its budgets, and the pods that share them.

use std::collections::BTreeSet;

use anyhow::Context;
use evacuation_api::Evacuation;
use evacuation_protocol::{Surroundings, is_finished, may_have_stopped};
use kube::{Api, Client, api::ListParams};

/// Reads the budgets and pods of a namespace.
pub(crate) async fn surroundings(client: &Client, namespace: &str) -> anyhow::Result<Surroundings> {
    let budgets = Api::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    let budgets =
        budgets.with_context(|| format!("poddisruptionbudgets of namespace {namespace} cannot be listed"))?;
    let pods = Api::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    let pods = pods.with_context(|| format!("pods of namespace {namespace} cannot be listed"))?;
    Ok(Surroundings::new(budgets.items, pods.items))
}

/// Reads the UIDs of the pods of a namespace that were asked and may have stopped their work.
pub(crate) async fn asked(client: &Client, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
    let all = Api::<Evacuation>::namespaced(client.clone(), namespace).list(&ListParams::default()).await;
    let all = all.with_context(|| format!("evacuations of namespace {namespace} cannot be listed"))?;
    let is_asked = |evacuation: &Evacuation| {
        evacuation.status.as_ref().is_some_and(|status| !is_finished(status) && may_have_stopped(status))
    };
    let asked = all.items.into_iter().filter(is_asked);
    Ok(asked.filter_map(|evacuation| evacuation.spec.target.pod.uid).collect())
}
