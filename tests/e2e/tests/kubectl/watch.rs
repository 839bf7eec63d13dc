//! `kubectl wait` and `kubectl get -w`.

use std::time::Duration;

use controlplane::Signal;
use evacuation_client::Answer;
use kube::ResourceExt;

use crate::desk::{Desk, assert_has};

/// Time limit on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn wait_returns_when_the_evacuation_is_finished_and_the_pod_evacuated() {
    let desk = Desk::new("wait").await;
    desk.plain_pod("web-0").await;
    let name = desk.evacuation("web-0").await.name_any();
    for condition in ["--for=condition=Finished", "--for=condition=Evacuated"] {
        let text = desk.kubectl(&["wait", condition, &format!("evacuation/{name}"), "--timeout=60s"]).await;
        assert_has(&text, &["condition met"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_finished_ends_after_a_refusal_too() {
    let desk = Desk::new("waitfail").await;
    let pod = desk.silent_pod("db-0").await;
    let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
    desk.kubectl(&["create", "evacuation", "db-0", "--on-refusal=give-up"]).await;
    let name = desk.evacuation_of("db-0").await.name_any();
    let name = format!("evacuation/{name}");
    desk.kubectl(&["wait", "--for=condition=Finished", &name, "--timeout=60s"]).await;
    let failed = desk
        .kubectl(&["get", &name, "-o", "jsonpath={.status.conditions[?(@.type==\"Failed\")].reason}"])
        .await;
    assert_eq!(failed, "Refused");
    let error = desk.fails(1, &["wait", "--for=condition=Evacuated", &name, "--timeout=1s"]).await;
    assert_has(&error, &["timed out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_deletion_returns_when_the_object_is_gone() {
    let desk = Desk::new("waitgone").await;
    let name = desk.asked("db-0").await.name_any();
    let waiting = desk.start(&["wait", "--for=delete", &format!("evacuation/{name}"), "--timeout=120s"]);
    let pod = desk.pods.api().get("db-0").await.unwrap();
    let _app = desk.answers(&pod, Answer::accept()).await;
    desk.pods.ended(&name).await.unwrap();
    desk.kubectl(&["delete", "evac", &name]).await;
    assert!(waiting.wait(PATIENCE).await.unwrap().success(), "{:?}", waiting.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn get_with_watch_prints_every_change_of_state() {
    let desk = Desk::new("watch").await;
    let pod = desk.silent_pod("db-0").await;
    let watching = desk.start(&["get", "evacuations", "-w"]);
    desk.evacuation("db-0").await;
    watching.wait_for_log(PATIENCE, "Asking").await.unwrap();
    let _app = desk.answers(&pod, Answer::accept()).await;
    watching.wait_for_log(PATIENCE, "Terminating").await.unwrap();
    watching.wait_for_log(PATIENCE, "Evacuated").await.unwrap();
    let log = watching.log().unwrap();
    assert_eq!(log.matches("NAME").count(), 1, "one header: {log}");
    assert_has(&log, &["Accept"]);
    watching.signal(Signal::Terminate).unwrap();
}
