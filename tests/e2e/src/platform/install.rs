//! Manifests, certificates and credentials of the installed system.

use std::path::PathBuf;

use anyhow::{Context, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use controlplane::{ControlPlane, IdentityFiles};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::json;

use super::NAMESPACE;
use crate::{kubeconfig::write_kubeconfig, programs::root};

/// Name of the serving certificate: the kube-apiserver asks for the Service by it.
const SERVICE: &str = "evacuation-apiserver.evacuation-system.svc";

/// Applies the manifests for processes on the host, and sets the port and the CA of the APIService.
pub(super) async fn install(control_plane: &ControlPlane, port: u16) -> anyhow::Result<()> {
    apply(control_plane, "deploy/overlays/host").await?;
    let ca = STANDARD.encode(control_plane.pki().ca_pem());
    let patch = json!({"spec": {"service": {"port": port}, "caBundle": ca}});
    api_services(control_plane.client()?)
        .patch("v1alpha1.evacuation.dev", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .context("the APIService was not patched")?;
    Ok(())
}

/// Applies the manifests of a folder of the project.
pub(super) async fn apply(control_plane: &ControlPlane, folder: &str) -> anyhow::Result<()> {
    let path = root().join(folder).display().to_string();
    let applied = control_plane.kubectl(&["apply", "-k", &path]).await?;
    if !applied.success() {
        bail!("the manifests of {folder} were not applied: {}", applied.stderr);
    }
    Ok(())
}

pub(super) fn serving_certificate(control_plane: &ControlPlane) -> anyhow::Result<IdentityFiles> {
    let identity = control_plane.pki().serving(&[SERVICE, "localhost", "127.0.0.1"])?;
    let folder = control_plane.folder().subfolder("evacuation-pki")?;
    Ok(identity.write(&folder, "apiserver")?)
}

/// A kubeconfig of one of the manifests' service accounts.
pub(super) async fn account(control_plane: &ControlPlane, name: &str) -> anyhow::Result<PathBuf> {
    let token = control_plane.service_account_token(NAMESPACE, name, None).await?;
    write_kubeconfig(control_plane, name, &token, NAMESPACE)
}

pub(super) fn api_services(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "apiservices"))
}
