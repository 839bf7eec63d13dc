//! `kubectl create -f`, `apply`, `patch`, `label`, `annotate`, `edit`, `delete`.

use kube::ResourceExt;

use crate::desk::{Desk, assert_has, manifest};

#[tokio::test(flavor = "multi_thread")]
async fn apply_creates_then_changes_nothing_then_changes_what_changed() {
    let desk = Desk::new("apply").await;
    desk.silent_pod("db-0").await;
    // A manifest that names the owner settles. The server fills an absent one in, and kubectl sees a
    // difference.
    let manifest = |name: &str, pod: &str| {
        manifest(name, pod).replace("  - name: test", "  - owner: admin\n    name: test")
    };
    let file = desk.file("mine.yaml", &manifest("mine", "db-0"));
    assert_has(&desk.kubectl(&["apply", "-f", &file]).await, &["created"]);
    assert_has(&desk.kubectl(&["apply", "-f", &file]).await, &["unchanged"]);
    let text = manifest("mine", "db-0").replace("NodeMaintenance", "Rebalancing");
    let file = desk.file("mine.yaml", &text);
    let diff = desk.run(&["diff", "-f", &file]).await;
    assert_eq!(diff.code, Some(1), "{diff:?}");
    assert_has(&diff.stdout, &["-    reason: NodeMaintenance", "+    reason: Rebalancing"]);
    assert_has(&desk.kubectl(&["apply", "-f", &file]).await, &["configured"]);
    let found = desk.pods.evacuations().get("mine").await.unwrap();
    assert_eq!(found.spec.requesters[0].reason.as_deref(), Some("Rebalancing"));
    assert!(found.spec.target.pod.uid.is_some(), "what the server filled in stays");
    assert_has(&desk.kubectl(&["delete", "-f", &file, "--wait=false"]).await, &["deleted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_change_what_they_name() {
    let desk = Desk::new("patch").await;
    let name = desk.asked("db-0").await.name_any();
    let reason = async || {
        let found = desk.pods.evacuations().get(&name).await.unwrap();
        found.spec.requesters[0].reason.clone()
    };
    desk.kubectl(&[
        "patch",
        "evac",
        &name,
        "--type=merge",
        "-p",
        r#"{"spec":{"requesters":[{"name":"test.evacuation.dev/desk","reason":"Merged","onRefusal":"Wait"}]}}"#,
    ])
    .await;
    assert_eq!(reason().await.as_deref(), Some("Merged"));
    desk.kubectl(&[
        "patch",
        "evac",
        &name,
        "--type=json",
        "-p",
        r#"[{"op":"test","path":"/spec/requesters/0/reason","value":"Merged"},{"op":"replace","path":"/spec/requesters/0/reason","value":"Pointed"}]"#,
    ])
    .await;
    assert_eq!(reason().await.as_deref(), Some("Pointed"));
    let error = desk
        .fails(
            1,
            &[
                "patch",
                "evac",
                &name,
                "--type=json",
                "-p",
                r#"[{"op":"test","path":"/spec/requesters/0/reason","value":"Other"}]"#,
            ],
        )
        .await;
    assert_has(&error, &["is invalid", "operation 0 of the JSON patch", "/spec/requesters/0/reason"]);
    // A strategic merge patch, kubectl's default, names the entry by its key and keeps its other fields.
    let entry = r#"{"spec":{"requesters":[{"name":"test.evacuation.dev/desk","reason":"Merged"}]}}"#;
    desk.kubectl(&["patch", "evac", &name, "-p", entry]).await;
    assert_eq!(reason().await.as_deref(), Some("Merged"));
    let error = desk
        .fails(
            1,
            &[
                "patch",
                "evac",
                &name,
                "--type=merge",
                "-p",
                r#"{"spec":{"target":{"pod":{"name":"other"}}}}"#,
            ],
        )
        .await;
    assert_has(&error, &["spec.target", "immutable"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_annotations_and_an_editor_change_the_object() {
    let desk = Desk::new("edit").await;
    let name = desk.asked("db-0").await.name_any();
    assert_has(&desk.kubectl(&["label", "evac", &name, "team=db"]).await, &["labeled"]);
    assert_has(&desk.kubectl(&["annotate", "evac", &name, "why=because"]).await, &["annotated"]);
    let mut editor = desk.command(&["edit", "evac", &name]);
    editor.env("KUBE_EDITOR", "sed -i 's/why: because/why: edited/'");
    let edited = controlplane::output_of("kubectl", editor).await.unwrap();
    assert_eq!(edited.code, Some(0), "{edited:?}");
    let found = desk.pods.evacuations().get(&name).await.unwrap();
    assert_eq!(found.labels()["team"], "db");
    assert_eq!(found.annotations()["why"], "edited");
    assert_has(&desk.kubectl(&["label", "evac", &name, "team-"]).await, &["unlabeled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_cancels_and_removes_one_or_all() {
    let desk = Desk::new("delete").await;
    let names = [
        desk.asked("db-0").await.name_any(),
        desk.asked("db-1").await.name_any(),
        desk.asked("db-2").await.name_any(),
    ];
    let mut apps = Vec::new();
    for pod in ["db-0", "db-1", "db-2"] {
        let pod = desk.pods.api().get(pod).await.unwrap();
        // The app acknowledges the cancellation, and only then the object goes.
        apps.push(desk.answers(&pod, evacuation_client::Answer::refuse("not now")).await);
    }
    assert_has(&desk.kubectl(&["delete", "evac", &names[0]]).await, &["deleted"]);
    assert_eq!(desk.count().await, 2);
    let text = desk.kubectl(&["delete", "evacuations", "--all"]).await;
    assert_has(&text, &[&names[1], &names[2]]);
    assert_eq!(desk.count().await, 0);
    for pod in ["db-0", "db-1", "db-2"] {
        let pod = desk.pods.api().get(pod).await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_none(), "the pod was left alone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_the_callers_request_for_a_pod_back_and_names_who_asks_it_still() {
    let desk = Desk::new("cancelpod").await;
    let pod = desk.silent_pod("db-0").await;
    let other = "--requester=repair.acme.io/rack";
    desk.kubectl(&["create", "evacuation", "db-0"]).await;
    desk.kubectl(&["create", "evacuation", "db-0", other]).await;
    let error = desk.fails(1, &["evacuate", "cancel", "pod/db-0"]).await;
    assert_has(&error, &["several requests", "choose one by --requester", "repair.acme.io/rack"]);
    let said = desk.kubectl(&["evacuate", "cancel", "pod/db-0", other]).await;
    assert_has(
        &said,
        &["request repair.acme.io/rack of ", " taken back, pod ", " is still asked to move by "],
    );
    let said = desk.kubectl(&["evacuate", "cancel", "pod/db-0"]).await;
    assert_has(&said, &[" taken back, nobody asks pod ", "/db-0 to move any more"]);
    let error = desk.fails(1, &["evacuate", "cancel", "pod/db-0"]).await;
    assert_has(&error, &["db-0"]);
    let found = desk.pods.api().get("db-0").await.unwrap();
    assert_eq!(found.metadata.uid, pod.metadata.uid);
    assert!(found.metadata.deletion_timestamp.is_none(), "the pod was left alone");
}
