//! Defaults and limits of the cluster's administrator, which can change while the API server runs.

use std::path::Path;

use evacuation_api::{Answer, DeadlineAction, ResponderState};
use evacuation_e2e::{
    App, PlatformOptions, PodSpec, Scene,
    scene::{PATIENCE, first, quick},
};
use serde_json::json;

use crate::nodes::Stage;

/// Limit on the total delay of each responder, in seconds.
const LIMIT: i64 = 4;
/// Limit on the timeout of each responder, in seconds.
const TIMEOUT: i64 = 2;

fn write(file: &Path, settings: &str) {
    let head = "apiVersion: apiserver.evacuation.dev/v1alpha1\nkind: NegotiationSettings\n";
    std::fs::write(file, format!("{head}{settings}")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_goes_on_at_the_administrators_limit_whatever_a_tenant_registers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.yaml");
    write(&file, &format!("maxDelaySeconds: {LIMIT}\n"));
    let options = PlatformOptions {
        apiserver_args: vec![
            format!("--negotiation-settings-file={}", file.display()),
            "--default-deadline-seconds=3600".to_owned(),
        ],
        ..PlatformOptions::default()
    };
    let stage = Stage::of(Scene::alone("settings", options).await, 1).await;
    let day = json!([{"name": "self", "maxDelaySeconds": 86400}]);
    let spec = quick(PodSpec::registered(&day).on(&stage.nodes[0]));
    let pod = stage.scene.pod("app", spec).await;
    let works = ["--work-seconds", "86400", "--step-seconds", "3600"];
    let _app = App::watching(stage.scene.platform(), &pod, "finish_work", &works).await.unwrap();
    let unmanaged = json!({"pods": {"unmanaged": "Evict"}});
    let asks = stage.drain("d", &[0], unmanaged.clone()).await.spec.requester;
    assert_eq!(asks.deadline_seconds, Some(3600), "the file leaves it to the flag");
    assert_eq!(asks.at_deadline, Some(DeadlineAction::Evict));
    stage.drained("d").await;
    let evacuation = stage.scene.evacuation_of("app").await;
    let said = first(&evacuation);
    assert_eq!((said.answer, said.max_delay_seconds), (Some(Answer::Delay), LIMIT));
    let delay = said.delay_until.unwrap().0 - said.active_time.unwrap().0;
    assert!(delay.num_seconds() <= LIMIT, "{said:?}");

    // The file changes: first to one that makes no sense, then to one with a default and another limit.
    let server = stage.scene.platform().apiserver();
    write(&file, "defaultAtDeadline: Delete\n");
    server.wait_for_log(PATIENCE, "the new negotiation settings are not used").await.unwrap();
    let default = "defaultDeadlineSeconds: 7200\ndefaultAtDeadline: GiveUp\n";
    write(&file, &format!("{default}maxTimeoutSeconds: {TIMEOUT}\n"));
    server.wait_for_log(PATIENCE, "negotiation settings reloaded").await.unwrap();
    let silent = json!([{"name": "self", "timeoutSeconds": 3600}]);
    stage.scene.pod("silent", PodSpec::registered(&silent).on(&stage.nodes[0])).await;
    let later = stage.drain("later", &[0], unmanaged).await;
    let requester = later.spec.requester;
    assert_eq!(requester.deadline_seconds, Some(7200));
    assert_eq!(requester.at_deadline, Some(DeadlineAction::GiveUp));
    stage.drained("later").await;
    let evacuation = stage.scene.evacuation_of("silent").await;
    let passed_over = first(&evacuation);
    assert_eq!((passed_over.answer, passed_over.timeout_seconds), (None, TIMEOUT), "{passed_over:?}");
    assert_eq!(passed_over.state, ResponderState::Interrupted, "{passed_over:?}");
}
