//! Calls and pods for the tests of this crate.

use evacuation_api::Operation;
use k8s_openapi::api::core::v1::Pod;
use machinery_auth::UserInfo;
use serde_json::json;

use crate::call::Call;

/// Returns a call of that user for the pod `shop/db-0`.
pub(crate) fn call_of(user: &str, operation: Operation) -> Call {
    Call {
        operation,
        namespace: "shop".to_owned(),
        pod: "db-0".to_owned(),
        uid: None,
        resource_version: None,
        user: UserInfo { name: user.to_owned(), ..UserInfo::default() },
        grace_period_seconds: None,
        propagates: false,
        dry_run: false,
    }
}

/// Returns the running pod `shop/db-0`, UID `pod-1`, with a controller of that kind and a condition
/// DisruptionTarget of that reason.
pub(crate) fn pod_of(owner_kind: Option<&str>, disruption: Option<&str>) -> Pod {
    let owners: Vec<_> = owner_kind
        .map(|kind| json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": true}))
        .into_iter()
        .collect();
    let conditions: Vec<_> = disruption
        .map(|reason| json!({"type": "DisruptionTarget", "status": "True", "reason": reason}))
        .into_iter()
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": "db-0", "namespace": "shop", "uid": "pod-1", "ownerReferences": owners},
        "spec": {"nodeName": "node-a", "terminationGracePeriodSeconds": 30, "containers": []},
        "status": {"phase": "Running", "conditions": conditions},
    }))
    .unwrap_or_default()
}
