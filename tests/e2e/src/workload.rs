//! Workloads: what Deployments, StatefulSets, ReplicaSets and Jobs of the scenarios have in common.

use serde_json::{Value, json};

/// Returns a workload of that name with so many replicas. Its pods have the label `app` and these
/// annotations, if any.
pub fn workload(name: &str, replicas: usize, annotations: &Value) -> Value {
    let labels = json!({"app": name});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            },
        },
    })
}
