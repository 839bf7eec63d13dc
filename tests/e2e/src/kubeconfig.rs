//! Kubeconfigs with a namespace, as an app in a pod has one.

use std::path::PathBuf;

use anyhow::Context;
use controlplane::ControlPlane;
use kube::config::Kubeconfig;

/// Writes a kubeconfig with that token and default namespace.
///
/// # Errors
///
/// Fails when the file cannot be written.
pub fn write_kubeconfig(
    control_plane: &ControlPlane,
    user: &str,
    token: &str,
    namespace: &str,
) -> anyhow::Result<PathBuf> {
    let file = control_plane.kubeconfig_for_token(user, token)?;
    let mut kubeconfig = Kubeconfig::read_from(&file)?;
    for context in &mut kubeconfig.contexts {
        if let Some(context) = &mut context.context {
            context.namespace = Some(namespace.to_owned());
        }
    }
    let text = machinery_merge::to_yaml(&kubeconfig)?;
    std::fs::write(&file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(file)
}
