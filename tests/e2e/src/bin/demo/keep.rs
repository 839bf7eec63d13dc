//! `--keep`: the cluster stays up for the visitor.

use evacuation_e2e::Gateway;
use kube::ResourceExt;

use crate::{acts::Cast, stage::Stage};

/// Says how to use the cluster, and waits for Ctrl-C.
pub(crate) async fn until_interrupted(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let platform = stage.platform();
    let (namespace, indexer) = (stage.namespace(), cast.indexer.name_any());
    println!("\nThe cluster stays up until Ctrl-C. In another terminal:\n");
    println!("  export KUBECONFIG={}", platform.control_plane().kubeconfig().display());
    println!(
        "  export PATH={}:{}:$PATH",
        platform.programs().folder().display(),
        platform.control_plane().binaries().folder()?.display()
    );
    println!("  kubectl get evacuations -A");
    println!("  kubectl -n {namespace} get pods -o wide");
    println!(
        "  kubectl create evacuation -n {namespace} {indexer} --reason Test --deadline 30s --at-deadline Evict --wait"
    );
    println!(
        "\nNothing answers for the pods that replaced others: evacuating those shows a silence of 60 s."
    );
    println!("\nFor an outage, freeze one of these by `kill -STOP`, and thaw it by `kill -CONT`:");
    let gateways = platform.gateway().map(Gateway::processes).unwrap_or_default();
    let apiservers = platform.apiservers().iter().chain(platform.controllers());
    for process in apiservers.chain(platform.built_in_responders()).chain(gateways) {
        if let Some(pid) = process.pid() {
            println!("  {pid}  {}", process.name());
        }
    }
    println!("Logs: {}", platform.control_plane().logs().display());
    tokio::signal::ctrl_c().await?;
    println!("shutting down");
    Ok(())
}
