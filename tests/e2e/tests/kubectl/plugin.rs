//! `kubectl create evacuation POD...`: whom it asks, and what it says.

use std::{process::Stdio, time::Duration};

use evacuation_client::Answer;
use kube::ResourceExt;

use crate::desk::{Desk, assert_has};

/// Time limit of a command on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn the_flags_become_the_requesters_entry() {
    let desk = Desk::new("flags").await;
    desk.silent_pod("db-0").await;
    let text = desk
        .kubectl(&[
            "create",
            "evacuation",
            "db-0",
            "--reason=NodeMaintenance",
            "--message=kernel upgrade",
            "--deadline=10m",
            "--at-deadline=delete",
            "--on-refusal=override",
            "--grace-period=7",
        ])
        .await;
    let evacuation = desk.evacuation_of("db-0").await;
    assert_eq!(text.trim(), format!("evacuation.evacuation.dev/{} created", evacuation.name_any()));
    let entry = serde_json::to_value(&evacuation.spec.requesters[0]).unwrap();
    assert_eq!(entry["name"], "kubectl.evacuation.dev/admin");
    assert_eq!(entry["reason"], "NodeMaintenance");
    assert_eq!(entry["message"], "kernel upgrade");
    assert_eq!(entry["onRefusal"], "Override");
    assert_eq!(entry["atDeadline"], "Delete");
    assert_eq!(entry["gracePeriodSeconds"], 7);
    let created = evacuation.metadata.creation_timestamp.unwrap().0.as_second();
    let after = evacuation.spec.requesters[0].deadline.unwrap().time().timestamp() - created;
    assert!((595..=605).contains(&after), "{after} s after its creation");
    let managers = evacuation.metadata.managed_fields.unwrap();
    let is_ours = |manager: Option<&str>| manager == Some("kubectl-evacuate");
    assert!(managers.iter().any(|entry| is_ours(entry.manager.as_deref())), "{managers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_asked_already_gets_the_request_added() {
    let desk = Desk::new("join").await;
    let name = desk.asked("db-0").await.name_any();
    let text = desk.kubectl(&["create", "evacuation", "db-0", "--reason=Mine"]).await;
    assert_eq!(text.trim(), format!("evacuation.evacuation.dev/{name} joined"));
    let found = desk.pods.evacuations().get(&name).await.unwrap();
    let names: Vec<_> = found.spec.requesters.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["test.evacuation.dev/desk", "kubectl.evacuation.dev/admin"]);
    // Asking again changes one's own entry and adds none.
    desk.kubectl(&["create", "evacuation", "db-0", "--reason=Again"]).await;
    let found = desk.pods.evacuations().get(&name).await.unwrap();
    assert_eq!(found.spec.requesters.len(), 2);
    assert_eq!(found.spec.requesters[1].reason.as_deref(), Some("Again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_pod_is_an_error_with_its_name_and_the_others_are_asked() {
    let desk = Desk::new("nobody").await;
    let error = desk.fails(1, &["create", "evacuation", "nobody"]).await;
    let namespace = desk.pods.namespace();
    assert_has(
        &error,
        &[
            &format!("error: creating an evacuation of pod {namespace}/nobody failed: "),
            "Not found: pod \"nobody\"",
        ],
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(!error.contains("ApiError"), "{error}");
    desk.silent_pod("db-0").await;
    desk.silent_pod("db-1").await;
    let output = desk.run(&["create", "evacuation", "db-0", "nobody", "db-1"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(output.stdout.matches(" created").count(), 2, "{output:?}");
    assert_has(&output.stderr, &["nobody"]);
    desk.evacuation_of("db-0").await;
    desk.evacuation_of("db-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_choose_the_pods() {
    let desk = Desk::new("labels").await;
    for (pod, team) in [("db-0", "db"), ("db-1", "db"), ("web-0", "web")] {
        let spec = crate::desk::silent().label("team", team);
        desk.pods.create(pod, &spec).await.unwrap();
    }
    let text = desk.kubectl(&["create", "evacuation", "-l", "team=db"]).await;
    assert_eq!(text.lines().count(), 2, "{text}");
    desk.evacuation_of("db-0").await;
    desk.evacuation_of("db-1").await;
    let error = desk.fails(1, &["create", "evacuation", "-l", "team=nobody"]).await;
    assert_has(&error, &["team=nobody", desk.pods.namespace()]);
    let error = desk.fails(1, &["create", "evacuation", "db-0", "-l", "team=db"]).await;
    assert_has(&error, &["cannot be used with"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_with_the_pods_and_tells_what_each_answered() {
    let desk = Desk::new("gone").await;
    let pod = desk.silent_pod("db-0").await;
    desk.plain_pod("web-0").await;
    let _app = desk.answers(&pod, Answer::accept()).await;
    let text = desk.kubectl(&["create", "evacuation", "db-0", "web-0", "--wait", "--timeout=60s"]).await;
    let namespace = desk.pods.namespace();
    assert_has(
        &text,
        &[&format!("{namespace}/db-0: Evacuated"), &format!("{namespace}/web-0: Evacuated"), "(Accept)"],
    );
    assert!(desk.pods.api().list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_pod_that_refuses_ends_with_code_2_and_its_words() {
    let desk = Desk::new("refused").await;
    let pod = desk.silent_pod("db-0").await;
    let _app = desk.answers(&pod, Answer::refuse("a backup runs")).await;
    let output =
        desk.run(&["create", "evacuation", "db-0", "--on-refusal=give-up", "--wait", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_has(&output.stdout, &["db-0: Failed", "Refused", "a backup runs"]);
    assert!(desk.pods.api().get("db-0").await.is_ok(), "the pod was left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_too_long_ends_with_code_3_and_the_evacuation_goes_on() {
    let desk = Desk::new("late").await;
    desk.silent_pod("db-0").await;
    let output = desk.run(&["create", "evacuation", "db-0", "--wait", "--timeout=10s"]).await;
    assert_eq!(output.code, Some(3), "{output:?}");
    assert_has(&output.stderr, &["not ended", "db-0: Asking"]);
    let found = desk.evacuation_of("db-0").await;
    assert!(evacuation_client::End::of(&found).is_none(), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_ends_the_command_without_a_word() {
    let desk = Desk::new("unread").await;
    desk.silent_pod("db-0").await;
    let mut command = desk.command(&["create", "evacuation", "db-0", "--wait"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output();
    let ended = tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap();
    assert_eq!(ended.status.code(), Some(141), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
