//! `--keep`: the cluster stays up for the visitor.

use evacuation_e2e::Platform;

use crate::scene::Scene;

/// Says how to use the cluster, and waits for Ctrl-C.
pub(crate) async fn until_interrupted(platform: &Platform, scene: &Scene) -> anyhow::Result<()> {
    let kubeconfig = platform.control_plane().kubeconfig();
    println!("\nThe cluster stays up until Ctrl-C. In another terminal:\n");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  export PATH={}:$PATH", platform.programs().folder().display());
    println!("  kubectl get evacuations -A");
    println!("  kubectl -n {} get pods -o wide", scene.namespace());
    println!(
        "  kubectl create evacuation -n {} {} --reason Test --wait",
        scene.namespace(),
        scene.refusing_pod()
    );
    println!("\nLogs: {}", platform.control_plane().logs().display());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
