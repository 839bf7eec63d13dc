//! The kinds of the contest, as alike as they can be.

use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

/// A kind of the contest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    /// Content of the object with that number.
    spec: fn(usize) -> Value,
}

/// The kind of our API server.
pub(super) const OURS: Kind =
    Kind { group: "evacuation.dev", version: "v1alpha1", name: "EvacuationResponder", spec: registration };
/// The same as a custom resource.
pub(super) const CUSTOM: Kind =
    Kind { group: "bench.evacuation.dev", version: "v1", name: "Registration", spec: registration };
/// The kind of the sample API server. It has fewer fields.
pub(super) const SAMPLE: Kind =
    Kind { group: "wardle.example.com", version: "v1alpha1", name: "Flunder", spec: flunder };

impl Kind {
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk(self.group, self.version, self.name))
    }

    /// Returns the object with that number, not yet created.
    pub(super) fn object(&self, name: &str, number: usize) -> DynamicObject {
        let mut object = DynamicObject::new(name, &self.resource());
        object.metadata.labels = Some([("app".to_owned(), format!("app-{}", number % 100))].into());
        object.data = json!({"spec": (self.spec)(number)});
        object
    }
}

fn registration(number: usize) -> Value {
    json!({
        "selector": {"matchLabels": {"app": format!("app-{number}")}},
        "name": format!("bench.acme.io/responder-{number}"),
        "priority": 100, "timeoutSeconds": 30, "maxDelaySeconds": 3600,
    })
}

fn flunder(number: usize) -> Value {
    json!({"reference": format!("flunder-{number}"), "referenceType": "Flunder"})
}

/// Returns the definition of [`CUSTOM`].
pub(super) fn definition() -> Value {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let spec = json!({
        "type": "object", "required": ["selector", "name"],
        "properties": {
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"matchLabels": labels}},
            "name": {"type": "string"},
            "priority": {"type": "integer", "format": "int32", "default": 10000},
            "timeoutSeconds": {"type": "integer", "format": "int64", "default": 60},
            "maxDelaySeconds": {"type": "integer", "format": "int64", "default": 86400},
        },
    });
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("registrations.{}", CUSTOM.group)},
        "spec": {
            "group": CUSTOM.group, "scope": "Namespaced",
            "names": {"kind": CUSTOM.name, "plural": "registrations", "singular": "registration"},
            "versions": [{
                "name": CUSTOM.version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}
