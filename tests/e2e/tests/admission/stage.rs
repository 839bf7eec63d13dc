//! A scene with configurations of admission that concern its namespace only.

use std::{ops::Deref, sync::Mutex};

use anyhow::bail;
use controlplane::{Output, eventually, output_of};
use evacuation_api::EvacuationResponder;
use evacuation_e2e::{PlatformOptions, Scene, scene::PATIENCE};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::webhook::Webhook;

/// A scene with configurations of admission.
pub(crate) struct Stage {
    scene: Scene,
    files: TempDir,
    configurations: Mutex<Vec<(&'static str, String)>>,
}

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

/// A platform whose API server may read ConfigMaps as params.
fn options() -> PlatformOptions {
    PlatformOptions { components: vec!["params-in-configmaps".to_owned()], ..PlatformOptions::default() }
}

/// A responder of that name.
pub(crate) fn responder(name: &str, labels: &Value) -> EvacuationResponder {
    let object = json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "EvacuationResponder",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "name": "db.acme.io/failover"},
    });
    serde_json::from_value(object).unwrap()
}

impl Stage {
    pub(crate) async fn new(prefix: &str) -> Self {
        Self::on(Scene::with(prefix, options).await)
    }

    /// A stage on another platform.
    pub(crate) fn on(scene: Scene) -> Self {
        Self { scene, files: TempDir::new().unwrap(), configurations: Mutex::default() }
    }

    /// The responders of the namespace, as `admin`.
    pub(crate) fn responders(&self) -> Api<EvacuationResponder> {
        self.api()
    }

    /// Creates a responder.
    pub(crate) async fn create_responder(
        &self,
        name: &str,
        labels: &Value,
    ) -> kube::Result<EvacuationResponder> {
        self.responders().create(&PostParams::default(), &responder(name, labels)).await
    }

    /// The same as a dry run.
    pub(crate) async fn dry_run(&self, name: &str, labels: &Value) -> kube::Result<EvacuationResponder> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        self.responders().create(&params, &responder(name, labels)).await
    }

    /// Creates an object of `admissionregistration.k8s.io`. It is removed by [`Stage::end`].
    pub(crate) async fn register(&self, kind: &'static str, object: &Value) {
        let api = registration(self.admin(), kind);
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let name = object.metadata.name.clone().unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        self.configurations.lock().unwrap().push((kind, name));
    }

    /// Registers a webhook for all writes in the namespace, with more fields of its own, and waits until the
    /// API server calls it.
    pub(crate) async fn attach(&self, kind: &'static str, name: &str, webhook: &Webhook, more: &Value) {
        self.attach_unseen(kind, name, webhook, more).await;
        let seen = eventually(PATIENCE, "the webhook is called", || async {
            // Any outcome will do: the webhook may deny it.
            let labels = json!({"probe": "yes", "guarded": "yes"});
            let outcome = self.dry_run(&format!("probe-{name}"), &labels).await;
            if webhook.was_probed() { Ok(()) } else { Err(format!("{outcome:?}")) }
        });
        seen.await.unwrap();
        webhook.requests();
    }

    /// The same without waiting.
    pub(crate) async fn attach_unseen(
        &self,
        kind: &'static str,
        name: &str,
        webhook: &Webhook,
        more: &Value,
    ) {
        let mut hook = json!({
            "name": format!("{name}.test.evacuation.dev"),
            "clientConfig": webhook.client_config(),
            "rules": [{
                "operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": ["evacuation.dev"],
                "apiVersions": ["*"], "resources": ["*/*"],
                // A namespaceSelector keeps no drain of another test away.
                "scope": "Namespaced",
            }],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace()}},
            "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        });
        for (field, value) in more.as_object().unwrap() {
            hook[field] = value.clone();
        }
        let name = format!("{name}-{}", self.namespace());
        self.register(kind, &json!({"metadata": {"name": name}, "webhooks": [hook]})).await;
    }

    /// Writes an object to a file and returns its path.
    pub(crate) fn file(&self, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = self.files.path().join(format!("{name}.yaml"));
        std::fs::write(&path, object.to_string()).unwrap();
        path.display().to_string()
    }

    /// Runs kubectl in the namespace, as `admin`.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut command = self.platform().kubectl_command();
        command.args(arguments).args(["-n", self.namespace()]);
        output_of("kubectl", command).await.unwrap()
    }

    /// Removes the configurations, so that the namespace can be removed, and waits until the API server has
    /// forgotten them.
    pub(crate) async fn end(self) {
        let configurations = std::mem::take(&mut *self.configurations.lock().unwrap());
        for (kind, name) in configurations {
            let api = registration(self.admin(), kind);
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        let forgotten = eventually(PATIENCE, "the configurations are forgotten", || async {
            match self.dry_run("last", &json!({"guarded": "yes"})).await {
                Ok(_) => Ok(()),
                Err(error) => bail!("{error}"),
            }
        });
        forgotten.await.unwrap();
    }
}

fn registration(client: Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    let mut resource = ApiResource::from_gvk(&kind);
    if kind.kind.ends_with("Policy") {
        resource.plural = format!("{}ies", kind.kind.to_lowercase().trim_end_matches('y'));
    }
    Api::all_with(client, &resource)
}
