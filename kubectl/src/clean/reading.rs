//! The state of the installation, and the nodes and pods with their marks.

use anyhow::{Context, bail};
use evacuation_api::{Evacuation, NodeEvacuation};
use evacuation_protocol::is_finished;
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{
    change::Change,
    marks::{of_node, of_pod},
};
use crate::{
    connection::api_service,
    drain_ref::{has_ended, nodes},
};

/// Number of objects of a page of a list.
const PAGE: u32 = 500;

/// State of the evacuation API in the cluster.
pub(super) enum Installation {
    /// There is no APIService for it.
    Removed,
    /// It is installed, and has these drains.
    Present(Vec<NodeEvacuation>),
}

impl Installation {
    /// Reads the APIService, and the drains if there is one.
    ///
    /// # Errors
    ///
    /// One of them cannot be read. Then nothing tells whether a drain is active.
    pub(super) async fn read(client: &Client) -> anyhow::Result<Self> {
        let (services, name) = (Api::<APIService>::all(client.clone()), api_service());
        let service = services.get_opt(&name).await;
        if service.with_context(|| format!("apiservice {name} cannot be read"))?.is_none() {
            return Ok(Self::Removed);
        }
        let drains = Api::all(client.clone()).list(&ListParams::default()).await;
        Ok(Self::Present(drains.context("nodeevacuations cannot be listed")?.items))
    }

    /// Returns the drains, none of which is active.
    ///
    /// # Errors
    ///
    /// A drain is active: its marks are in use.
    pub(super) fn without_active(&self) -> anyhow::Result<&[NodeEvacuation]> {
        let Self::Present(drains) = self else { return Ok(&[]) };
        let active: Vec<_> =
            drains.iter().filter(|drain| !has_ended(drain)).map(ResourceExt::name_any).collect();
        if !active.is_empty() {
            bail!(
                "the evacuation API is installed, and drains are active: {}; to end them: kubectl evacuate \
                 cancel {}",
                active.join(", "),
                active.join(" ")
            );
        }
        Ok(drains)
    }
}

/// Returns an error that names the Evacuations in progress: their marks on pods and on others' objects are in
/// use.
///
/// # Errors
///
/// There are some, or they cannot be listed.
pub(super) async fn without_evacuations(client: &Client) -> anyhow::Result<()> {
    let all: Api<Evacuation> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = all.list(&params).await.context("evacuations cannot be listed")?;
        let is_active = |evacuation: &&Evacuation| !evacuation.status.as_ref().is_some_and(is_finished);
        if let Some(active) = page.items.iter().find(is_active) {
            bail!(
                "the evacuation API is installed, and an evacuation is in progress: {}; wait for its end, or \
                 take it back: kubectl evacuate cancel pod/{} -n {}",
                active.name_any(),
                active.spec.target.pod.name,
                active.namespace().unwrap_or_default()
            );
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Reads the nodes and pods, and returns the changes that remove their marks. The nodes of drains that exist
/// are left out: their marks go with the drains.
pub(super) async fn marks(client: &Client, drains: &[NodeEvacuation]) -> anyhow::Result<Vec<Change>> {
    let in_use = |node: &Node| drains.iter().any(|drain| nodes(drain).contains(&node.name_any().as_str()));
    let mut changes = Vec::new();
    let all: Api<Node> = Api::all(client.clone());
    let listed = all.list(&ListParams::default()).await.context("nodes cannot be listed")?;
    changes.extend(listed.items.iter().filter(|node| !in_use(node)).flat_map(of_node));
    let all: Api<Pod> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = all.list(&params).await.context("pods cannot be listed")?;
        changes.extend(page.items.iter().filter_map(of_pod));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(changes),
        }
    }
}
