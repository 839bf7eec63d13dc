use anyhow::bail;
use controlplane::eventually;
use evacuation_e2e::scene::{PATIENCE, refused_saying};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::stage::{Stage, responder};

/// Registers a policy on responders, and a binding in the namespace.
async fn bind(stage: &Stage, name: &str, policy: &Value, binding: &Value) {
    let name = format!("{name}-{}", stage.namespace());
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "operations": ["CREATE", "UPDATE"], "apiGroups": ["evacuation.dev"], "apiVersions": ["*"],
            "resources": ["evacuationresponders"],
        }]},
    });
    for (field, value) in policy.as_object().unwrap() {
        spec[field] = value.clone();
    }
    stage.register("ValidatingAdmissionPolicy", &json!({"metadata": {"name": name}, "spec": spec})).await;
    let mut spec = json!({
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace()}},
        },
    });
    for (field, value) in binding.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let binding = json!({"metadata": {"name": name}, "spec": spec});
    stage.register("ValidatingAdmissionPolicyBinding", &binding).await;
}

/// Waits until a dry run of a responder with that label is refused so.
async fn refuses(stage: &Stage, label: &str, text: &str) {
    let refused = eventually(PATIENCE, "the policy refuses", || async {
        match stage.dry_run("probe", &json!({label: "yes"})).await {
            Err(kube::Error::Api(status)) if status.message.contains(text) => Ok(()),
            other => bail!("{other:?}"),
        }
    });
    refused.await.unwrap();
}

#[tokio::test]
async fn a_policy_denies_by_its_params_with_its_own_message() {
    let stage = Stage::new("policy").await;
    let limits = json!({"metadata": {"name": "limits"}, "data": {"most": "20000"}});
    stage.create::<ConfigMap>(limits).await;
    let policy = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [
            {"name": "most", "expression": "int(params.data.most)"},
            {"name": "priority", "expression": "object.spec.?priority.orValue(0)"},
        ],
        "validations": [{
            "expression": "variables.priority <= variables.most",
            "messageExpression": "'priority ' + string(variables.priority) + ' is above ' + string(variables.most) + ' in ' + namespaceObject.metadata.name",
            "reason": "Forbidden",
        }],
    });
    let reference = json!({"paramRef": {
        "name": "limits", "namespace": stage.namespace(), "parameterNotFoundAction": "Deny",
    }});
    bind(&stage, "priority", &policy, &reference).await;
    let name = format!("priority-{}", stage.namespace());
    let mut high = serde_json::to_value(responder("high", &json!({}))).unwrap();
    high["spec"]["priority"] = json!(30_000);
    let file = stage.file(&high);
    let text = format!(
        "ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: priority 30000 is above 20000 in {}",
        stage.namespace()
    );
    // The right to read the params is new, so the kube-apiserver may not know it yet.
    let denied = eventually(PATIENCE, "the policy denies with its own message", || async {
        let output = stage.kubectl(&["create", "--dry-run=server", "-f", &file]).await;
        if output.success() || !output.stderr.contains(&text) || !output.stderr.contains("(Forbidden)") {
            bail!("{output:?}");
        }
        Ok(())
    });
    denied.await.unwrap();
    stage.create_responder("low", &json!({})).await.unwrap();

    // Changed params count within seconds.
    let params = stage.api::<ConfigMap>();
    let more = Patch::Merge(json!({"data": {"most": "40000"}}));
    params.patch("limits", &PatchParams::default(), &more).await.unwrap();
    let passes = eventually(PATIENCE, "the policy allows", || async {
        let output = stage.kubectl(&["create", "--dry-run=server", "-f", &file]).await;
        if output.success() { Ok(()) } else { bail!("{output:?}") }
    });
    passes.await.unwrap();
    // Without its params, the binding denies.
    params.delete("limits", &DeleteParams::default()).await.unwrap();
    refuses(&stage, "any", "no params found for policy binding with `Deny` parameterNotFoundAction").await;
    stage.end().await;
}

#[tokio::test]
async fn an_action_warn_shows_a_warning_and_lets_the_write_pass() {
    let stage = Stage::new("policy-warn").await;
    let policy = json!({
        "validations": [{"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels",
            "message": "a responder has a label team"}],
    });
    bind(&stage, "warn", &policy, &json!({"validationActions": ["Warn", "Audit"]})).await;
    let name = format!("warn-{}", stage.namespace());
    let file = stage.file(&serde_json::to_value(responder("db", &json!({}))).unwrap());
    let warning = format!(
        "Warning: Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': a responder has a label team"
    );
    let warned = eventually(PATIENCE, "the policy warns", || async {
        let output = stage.kubectl(&["create", "--dry-run=server", "-f", &file]).await;
        if output.success() && output.stderr.contains(&warning) { Ok(()) } else { bail!("{output:?}") }
    });
    warned.await.unwrap();
    stage.create_responder("db", &json!({})).await.unwrap();
    stage.end().await;
}

#[tokio::test]
async fn a_policy_asks_for_the_rights_of_the_caller_and_heeds_its_conditions() {
    let stage = Stage::new("policy-rights").await;
    let policy = json!({
        "matchConditions": [{"name": "locked", "expression": "has(object.metadata.labels) && 'locked' in object.metadata.labels"}],
        "validations": [
            {"expression": "authorizer.group('evacuation.dev').resource('locks').namespace(request.namespace).check('open').allowed()"},
            {"expression": "oldObject == null || oldObject.spec.name == object.spec.name"},
        ],
    });
    bind(&stage, "rights", &policy, &json!({})).await;
    let labels = json!({"locked": "yes"});
    let user = stage.user("jane", &[]).await;
    let create = json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuationresponders"],
        "verbs": ["create", "respond", "*"]});
    stage.grant(&user.name, create).await;
    let api: kube::Api<evacuation_api::EvacuationResponder> =
        kube::Api::namespaced(user.client.clone(), stage.namespace());
    let dry = kube::api::PostParams { dry_run: true, ..kube::api::PostParams::default() };
    let denied = eventually(PATIENCE, "the policy denies", || async {
        match api.create(&dry, &responder("db", &labels)).await {
            Err(kube::Error::Api(status)) if status.message.contains("failed expression: authorizer") => {
                Ok(())
            }
            other => bail!("{other:?}"),
        }
    });
    denied.await.unwrap();
    api.create(&dry, &responder("db", &json!({}))).await.unwrap();
    // The administrator may do everything.
    stage.create_responder("db", &labels).await.unwrap();
    stage.end().await;
}

#[tokio::test]
async fn an_expression_that_fails_counts_by_the_failure_policy() {
    let stage = Stage::new("policy-errors").await;
    let broken = json!([{"expression": "object.spec.absent.more == 1"}]);
    let open = json!({"failurePolicy": "Ignore", "validations": broken});
    bind(&stage, "open", &open, &json!({})).await;
    stage.create_responder("open", &json!({})).await.unwrap();
    let closed = json!({"validations": broken});
    bind(&stage, "closed", &closed, &json!({})).await;
    refuses(&stage, "any", "resulted in error").await;
    refused_saying(stage.create_responder("closed", &json!({})).await, 422, "resulted in error");
    stage.end().await;
}
