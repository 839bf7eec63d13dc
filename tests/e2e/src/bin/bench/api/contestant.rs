//! A server in the contest: how it is called, and which processes it is.

use anyhow::Context;
use controlplane::{ControlPlane, Process, eventually};
use evacuation_e2e::{Platform, scene::PATIENCE};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::kinds::{self, Kind};
use crate::proc_files::{Stat, proportional};

/// The peers' names in the rows, in their order.
pub(super) const PEERS: [&str; 2] = ["a custom resource", "sample-apiserver"];
/// Namespace of the objects.
pub(super) const NAMESPACE: &str = "bench";

/// A server in the contest.
pub(super) struct Contestant {
    /// Clients' configuration, with the server's own address.
    config: kube::Config,
    pub(super) kind: Kind,
    pid: u32,
}

impl Contestant {
    /// Returns a server that listens on that port, once it answers.
    pub(super) async fn new(
        control_plane: &ControlPlane,
        port: u16,
        process: &Process,
        kind: Kind,
    ) -> anyhow::Result<Self> {
        let mut config = control_plane.client_config();
        config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
        config.tls_server_name = Some("localhost".to_owned());
        let pid = process.pid().with_context(|| format!("{} has ended", process.name()))?;
        let contestant = Self { config, kind, pid };
        let api = contestant.api()?;
        let params = ListParams::default().limit(1);
        eventually(PATIENCE, "the server answers", || async {
            api.list(&params).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        Ok(contestant)
    }

    /// Our API server.
    pub(super) async fn ours(platform: &Platform) -> anyhow::Result<Self> {
        let port = platform.apiserver_ports().first().copied().context("it listens")?;
        Self::new(platform.control_plane(), port, platform.apiserver(), kinds::OURS).await
    }

    /// A custom resource, in the kube-apiserver.
    pub(super) async fn custom_resource(platform: &Platform) -> anyhow::Result<Self> {
        let control_plane = platform.control_plane();
        create(&control_plane.client()?, &kinds::definition()).await?;
        let (_, port) = control_plane.server().rsplit_once(':').context("its address has a port")?;
        let process = control_plane.apiserver().process();
        Self::new(control_plane, port.parse()?, process, kinds::CUSTOM).await
    }

    /// Returns an API of a client of its own.
    pub(super) fn api(&self) -> anyhow::Result<Api<DynamicObject>> {
        let client = Client::try_from(self.config.clone())?;
        Ok(Api::namespaced_with(client, NAMESPACE, &self.kind.resource()))
    }

    /// Takes the process for the server's after it was started again.
    pub(super) fn follow(&mut self, process: &Process) -> anyhow::Result<()> {
        self.pid = process.pid().with_context(|| format!("{} has ended", process.name()))?;
        Ok(())
    }

    /// Returns a client that keeps its connections, and makes each call once: kube's own retries would wait
    /// after the refusal of a server that is not ready.
    pub(super) fn client_without_retries(&self) -> anyhow::Result<Client> {
        let mut config = self.config.clone();
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Asks the server once whether it is ready, and lists an object: sample-apiserver says that it is ready
    /// before it knows its callers.
    pub(super) async fn ready(&self, client: &Client) -> anyhow::Result<()> {
        client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
        let objects = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &self.kind.resource());
        objects.list(&ListParams::default().limit(1)).await?;
        Ok(())
    }

    /// Returns the CPU time of the server so far, in seconds.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        Ok(Stat::of(&self.pid.to_string())?.cpu)
    }

    /// Returns the memory of the server in MiB.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        Ok(proportional(&self.pid.to_string())? / 1024.0)
    }
}

/// Creates the namespace of the objects.
pub(super) async fn make_namespace(platform: &Platform) -> anyhow::Result<()> {
    create(
        &platform.client()?,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
    )
    .await
}

/// Creates an object of any kind of the cluster.
async fn create(client: &Client, object: &Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.as_ref().context("it has a kind")?;
    let resource = ApiResource::from_gvk(&types.try_into()?);
    Api::<DynamicObject>::all_with(client.clone(), &resource).create(&PostParams::default(), &object).await?;
    Ok(())
}
