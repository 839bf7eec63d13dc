//! Objects that are created again from a backup: they do nothing until a user says that they are meant.

use serde_json::{Value, json};

use crate::{
    harness::{Server, evacuation, requester},
    node_evacuation::{drain, finish, of_jane, start, user},
};

const DRAINS: &str = "nodeevacuations";
const DRAIN: &str = "nodeevacuations/d";

/// The yaml of jane's drain `d` after its end, without what a caller removes to create it again.
async fn backup(server: &Server) -> Value {
    of_jane(server, json!({})).await;
    let mut object = finish(server, "d").await;
    let controller = server.controller().in_namespace("");
    user(server, "jane").delete_at(DRAIN).await.ok();
    controller.edit_at(DRAIN, |object| object["metadata"]["finalizers"] = json!([])).await.ok();
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

#[tokio::test]
async fn a_drain_that_is_created_again_is_paused_without_its_status_until_it_is_resumed() {
    let server = start().await;
    let whole = backup(&server).await;
    let jane = user(&server, "jane");
    let mut without_status = whole.clone();
    without_status.as_object_mut().unwrap().remove("status");
    let mut in_progress = whole.clone();
    in_progress["status"] = json!({"verdict": "Slow", "nodes": [{"name": "a", "phase": "Draining"}]});
    for object in [whole, without_status, in_progress] {
        let created = jane.create_of(DRAINS, &object).await;
        let said = "nodeevacuation d is created paused: ";
        assert!(created.warnings.iter().any(|warning| warning.contains(said)), "{created:#?}");
        let created = created.ok();
        assert_eq!(created["spec"]["paused"], true);
        assert_eq!(created["status"].get("conditions"), None, "{created:#}");
        assert_eq!(created["status"].get("finishTime"), None, "{created:#}");
        assert_eq!(created["status"].get("verdict"), None, "{created:#}");

        let resumed = jane.merge_patch_at(DRAIN, json!({"spec": {"paused": false}})).await;
        assert_eq!(resumed.warnings, [""; 0]);
        assert_eq!(resumed.ok()["spec"].get("paused"), None);
        jane.delete_at(DRAIN).await.ok();
        let controller = server.controller().in_namespace("");
        controller.edit_at(DRAIN, |object| object["metadata"]["finalizers"] = json!([])).await.ok();
    }
}

#[tokio::test]
async fn an_apply_that_creates_a_finished_drain_creates_it_paused_and_the_next_one_leaves_it_so() {
    let server = start().await;
    let configuration = backup(&server).await;
    let mut new = drain("d", &configuration["spec"]);
    new["status"] = configuration["status"].clone();
    let jane = user(&server, "jane");
    let url = format!("{DRAIN}?fieldManager=flux");
    let created = jane.apply_at(&url, &new).await;
    assert!(created.warnings.iter().any(|warning| warning.contains("is created paused")), "{created:#?}");
    assert_eq!(created.ok()["spec"]["paused"], true);
    assert_eq!(jane.apply_at(&url, &new).await.ok()["spec"]["paused"], true);
}

#[tokio::test]
async fn an_apply_without_a_status_creates_a_drain_that_runs() {
    let server = start().await;
    let url = format!("{DRAIN}?fieldManager=flux");
    let created = user(&server, "jane").apply_at(&url, &drain("d", &json!({}))).await;
    assert_eq!(created.warnings, [""; 0]);
    assert_eq!(created.ok()["spec"].get("paused"), None);
}

#[tokio::test]
async fn a_rule_with_the_label_of_a_backup_tool_is_created_paused() {
    let server = start().await;
    let rule = json!({
        "apiVersion": "evacuation.dev/v1alpha1", "kind": "NodeEvacuationRule",
        "metadata": {"name": "spot", "labels": {"velero.io/restore-name": "nightly"}},
        "spec": {"marks": [{"taint": {"key": "example.com/spot"}}]},
    });
    let created = user(&server, "jane").create_of("nodeevacuationrules", &rule).await;
    let said = "nodeevacuationrule spot is created paused: the label velero.io/restore-name";
    assert!(created.warnings.iter().any(|warning| warning.contains(said)), "{created:#?}");
    assert_eq!(created.ok()["spec"]["paused"], true);
}

#[tokio::test]
async fn a_finished_or_restored_evacuation_is_refused_and_stored_by_nobody() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let object = evacuation("e", "db-0", &[requester("jane.example.com/a", json!({}))]);
    let condition = |status: &str| {
        json!({"type": "Finished", "status": status, "reason": "Refused", "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let mut ended = object.clone();
    ended["status"] = json!({"conditions": [condition("True")]});
    let refusal = jane.create(&ended).await.refused(422, "Invalid").saying("remove the status");
    refusal.because("FieldValueForbidden", "status");
    let refusal = jane.apply("e", "flux", &ended).await.refused(422, "Invalid");
    refusal.because("FieldValueForbidden", "status");

    let mut restored = object.clone();
    restored["metadata"]["labels"] = json!({"velero.io/backup-name": "nightly"});
    let refusal = jane.create(&restored).await.refused(422, "Invalid").saying("remove this label");
    refusal.because("FieldValueForbidden", "metadata.labels[velero.io/backup-name]");
    jane.get("evacuations/e").await.refused(404, "NotFound");

    let mut running = object;
    running["status"] = json!({"conditions": [condition("False")]});
    let created = jane.create(&running).await.ok();
    assert_eq!(created["status"].get("conditions"), None, "{created:#}");
}
