//! The Evacuation of a pod that the command line names.

use anyhow::{Context, bail};
use evacuation_api::Evacuation;
use evacuation_protocol::is_finished;
use kube::{Api, Client, api::ListParams};

use crate::why::newest;

/// Returns the Evacuation of the pod that is in progress, or else the one that was created last.
pub(crate) async fn evacuation_of(client: &Client, pod: &str) -> anyhow::Result<Option<Evacuation>> {
    let api: Api<Evacuation> = Api::default_namespaced(client.clone());
    let of_pod = ListParams::default().fields(&format!("spec.target.pod.name={pod}"));
    let all = api.list(&of_pod).await;
    let namespace = client.default_namespace();
    let all = all.with_context(|| format!("evacuations of pod {namespace}/{pod} cannot be listed"))?;
    Ok(newest(all.items))
}

/// Returns the Evacuation of the pod that is in progress.
///
/// # Errors
///
/// There is none. The error names the command that asks the pod.
pub(crate) async fn active(client: &Client, pod: &str, flags: &str) -> anyhow::Result<Evacuation> {
    let namespace = client.default_namespace();
    let ask = format!("to ask it: kubectl create evacuation {pod} -n {namespace}{flags}");
    match evacuation_of(client, pod).await? {
        Some(open) if !open.status.as_ref().is_some_and(is_finished) => Ok(open),
        Some(_) => bail!("the last evacuation of pod {namespace}/{pod} has ended; {ask}"),
        None => bail!("nobody asks pod {namespace}/{pod} to move; {ask}"),
    }
}
