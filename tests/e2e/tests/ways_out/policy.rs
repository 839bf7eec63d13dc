//! Admission policies of the kube-apiserver that reject writes of the system.

use controlplane::eventually;
use evacuation_e2e::{Scene, scene::PATIENCE};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

/// Reason of its rejections.
const FREEZE: &str = "the freeze lasts until Monday";

/// A policy that rejects updates of one object.
pub(crate) struct RejectingPolicy {
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
    name: String,
}

impl RejectingPolicy {
    /// Creates one that rejects each update of the object of that name after which the expression is false,
    /// and waits until it rejects a dry run of such an update.
    pub(crate) async fn start<F: Future<Output = kube::Result<()>>>(
        scene: &Scene,
        resource: &str,
        object: &str,
        expression: &str,
        dry_run: impl Fn() -> F,
    ) -> Self {
        let name = format!("reject-{}", scene.namespace());
        let rule = json!({
            "operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": [resource], "resourceNames": [object],
        });
        let policy = json!({
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression, "message": FREEZE}],
            },
        });
        // The selector keeps no object away that has no namespace.
        let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": scene.namespace()}});
        let binding = json!({
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": namespace},
            },
        });
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(scene.admin());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scene.admin());
        policies.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        let rejected = eventually(PATIENCE, "the policy rejects the update", || async {
            match dry_run().await {
                Err(kube::Error::Api(status)) if status.message.contains(FREEZE) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        rejected.await.unwrap();
        Self { policies, bindings, name }
    }

    /// Its name, and that of its binding.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Removes its binding, and the policy if it is there.
    pub(crate) async fn remove(self) {
        self.bindings.delete(&self.name, &DeleteParams::default()).await.unwrap();
        match self.policies.delete(&self.name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            deleted => drop(deleted.unwrap()),
        }
    }
}
