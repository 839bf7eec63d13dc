//! The folder that the kubelet mounts into a pod.

use std::path::PathBuf;

use evacuation_e2e::Scene;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// A pod's folder with the namespace and the CA. The token comes later.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    pub(crate) fn new(scene: &Scene, pod: &Pod) -> Self {
        let control_plane = scene.control_plane();
        let folder = control_plane.folder().subfolder(&format!("mounted-{}", pod.uid().unwrap())).unwrap();
        std::fs::write(folder.join("namespace"), scene.namespace()).unwrap();
        std::fs::copy(control_plane.ca(), folder.join("ca.crt")).unwrap();
        Self(folder)
    }

    /// Writes a token that no server takes.
    pub(crate) fn break_token(&self) {
        std::fs::write(self.0.join("token"), "expired").unwrap();
    }

    /// Writes a new token that is bound to the pod.
    pub(crate) async fn renew_token(&self, scene: &Scene, pod: &Pod) {
        let (name, uid) = (pod.name_any(), pod.uid().unwrap());
        let account = (scene.namespace(), "default");
        let token = scene.control_plane().service_account_token(account.0, account.1, Some((&name, &uid)));
        std::fs::write(self.0.join("token"), token.await.unwrap()).unwrap();
    }

    /// The variables of a program in the pod, and the place of the folder.
    pub(crate) fn environment(&self, scene: &Scene) -> [(&'static str, String); 3] {
        let server = scene.control_plane().server().trim_start_matches("https://");
        let (host, port) = server.rsplit_once(':').unwrap();
        [
            ("FOLDER", self.0.display().to_string()),
            ("KUBERNETES_SERVICE_HOST", host.to_owned()),
            ("KUBERNETES_SERVICE_PORT", port.to_owned()),
        ]
    }
}
