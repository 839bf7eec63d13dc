//! Names of objects as candidates.

use std::{fmt::Debug, time::Duration};

use clap::Parser;
use evacuation_api::{Evacuation, NodeEvacuation};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams, config::Kubeconfig};
use serde::de::DeserializeOwned;

use super::words::Wanted;
use crate::connection::NamespacedConnection;

/// Maximum time of a look at the cluster: a person waits for it.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of candidates.
const MANY: u32 = 500;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    connection: NamespacedConnection,
}

/// Returns the names of that kind, or none when they cannot be read in time.
pub(super) async fn names(wanted: Wanted, connection: &[String]) -> Vec<String> {
    let connection = connection.iter().map(String::as_str);
    let Ok(flags) = Flags::try_parse_from(std::iter::once("names").chain(connection)) else {
        return Vec::new();
    };
    let found = tokio::time::timeout(PATIENCE, read(wanted, &flags.connection)).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

async fn read(wanted: Wanted, connection: &NamespacedConnection) -> anyhow::Result<Vec<String>> {
    match wanted {
        Wanted::Files => return Ok(Vec::new()),
        Wanted::Contexts => {
            return Ok(Kubeconfig::read()?.contexts.into_iter().map(|context| context.name).collect());
        }
        Wanted::Clusters => {
            return Ok(Kubeconfig::read()?.clusters.into_iter().map(|cluster| cluster.name).collect());
        }
        _ => {}
    }
    let client = connection.client().await?;
    match wanted {
        Wanted::Nodes => of(Api::<Node>::all(client)).await,
        Wanted::Namespaces => of(Api::<Namespace>::all(client)).await,
        Wanted::Drains => {
            let drains = Api::<NodeEvacuation>::all(client).list(&ListParams::default().limit(MANY)).await?;
            Ok(drains.items.iter().map(ResourceExt::name_any).collect())
        }
        Wanted::Pods => of(Api::<Pod>::default_namespaced(client)).await,
        Wanted::Evacuations => open(client).await,
        Wanted::Files | Wanted::Contexts | Wanted::Clusters => Ok(Vec::new()),
    }
}

async fn of<K: Resource + Clone + DeserializeOwned + Debug>(api: Api<K>) -> anyhow::Result<Vec<String>> {
    let objects = api.list_metadata(&ListParams::default().limit(MANY)).await?;
    Ok(objects.items.iter().map(ResourceExt::name_any).collect())
}

/// Returns the Evacuations that have not ended, and their pods as pod/NAME.
async fn open(client: Client) -> anyhow::Result<Vec<String>> {
    let api: Api<Evacuation> = Api::default_namespaced(client);
    let open = ListParams::default().fields("status.finished=false").limit(MANY);
    let open = api.list(&open).await?.items;
    let pods = open.iter().map(|evacuation| format!("pod/{}", evacuation.spec.target.pod.name));
    Ok(open.iter().map(ResourceExt::name_any).chain(pods).collect())
}
