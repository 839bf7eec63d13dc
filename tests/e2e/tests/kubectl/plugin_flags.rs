//! `kubectl create evacuation`: what it prints, and bad usage.

use serde_json::Value;

use crate::desk::{Desk, assert_has};

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_stores_nothing_and_prints_what_would_be() {
    let desk = Desk::new("plandry").await;
    desk.silent_pod("db-0").await;
    let text = desk.kubectl(&["create", "evacuation", "db-0", "--dry-run=client"]).await;
    assert_has(&text, &["created (dry run)"]);
    let manifest = desk.kubectl(&["create", "evacuation", "db-0", "--dry-run=client", "-o", "yaml"]).await;
    let server = desk.kubectl(&["create", "evacuation", "db-0", "--dry-run=server"]).await;
    assert_has(&server, &["created (server dry run)"]);
    let error = desk.fails(1, &["create", "evacuation", "nobody", "--dry-run=server"]).await;
    assert_has(&error, &["nobody"]);
    assert_eq!(desk.count().await, 0);
    // What the client's dry run prints is what kubectl takes.
    let file = desk.file("printed.yaml", &manifest);
    assert_has(&desk.kubectl(&["create", "-f", &file]).await, &["created"]);
    let joined = desk.kubectl(&["create", "evacuation", "db-0", "--dry-run=server"]).await;
    assert_has(&joined, &["joined (server dry run)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_output_is_an_object_or_its_name() {
    let desk = Desk::new("output").await;
    for pod in ["db-0", "db-1", "db-2"] {
        desk.silent_pod(pod).await;
    }
    let yaml = desk.kubectl(&["create", "evacuation", "db-0", "-o", "yaml"]).await;
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(yaml["kind"], "Evacuation");
    assert_eq!(yaml["spec"]["target"]["pod"]["name"], "db-0");
    let json = desk.kubectl(&["create", "evacuation", "db-1", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["apiVersion"], "evacuation.dev/v1alpha1");
    let name = desk.kubectl(&["create", "evacuation", "db-2", "-o", "name"]).await;
    let object = desk.kubectl(&["get", name.trim(), "-o", "jsonpath={.spec.target.pod.name}"]).await;
    assert_eq!(object, "db-2", "kubectl takes the name: {name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_output_form_progress_stays_out_of_standard_output() {
    let desk = Desk::new("quiet").await;
    desk.plain_pod("web-0").await;
    let output = desk.run(&["create", "evacuation", "web-0", "-o", "name", "--wait", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stdout.lines().count(), 1, "{output:?}");
    assert_has(&output.stderr, &["web-0: Evacuated"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_usage_ends_with_code_1_and_names_the_flag() {
    let desk = Desk::new("usage").await;
    desk.silent_pod("db-0").await;
    for (arguments, expected) in [
        (&["db-0", "--deadline=10"][..], &["--deadline", "10m or 1h30m"][..]),
        (&["db-0", "--deadline=soon"], &["--deadline", "soon"]),
        (&["db-0", "--deadline=0s"], &["--deadline", "longer than zero"]),
        (&["db-0", "--at-deadline=evict"], &["--deadline"]),
        (&["db-0", "--deadline=1m", "--at-deadline=explode"], &["--at-deadline", "explode"]),
        (&["db-0", "--on-refusal=cry"], &["--on-refusal", "cry", "give-up"]),
        (&["db-0", "--grace-period=long"], &["--grace-period"]),
        (&["-l", ""], &["--selector"]),
        (&["node/db-0"], &["only pods", "node"]),
        (&["db-0", "--window=0 22 * * 6"], &["--window-duration"]),
        (&["db-0", "--window-duration=2h"], &["--window"]),
        (&["db-0", "--time-zone=Europe/Berlin"], &["--window"]),
        (
            &["db-0", "--window=0 0 30 2 *", "--window-duration=2h"],
            &["spec.requesters[0].window.schedule", "never comes"],
        ),
        (
            &["db-0", "--window=@daily", "--window-duration=2h", "--time-zone=Mars/Base"],
            &["spec.requesters[0].window.timeZone", "Mars/Base"],
        ),
        (&["db-0", "--timeout=1m"], &["--wait"]),
        (&["db-0", "--dry-run=perhaps"], &["--dry-run", "perhaps"]),
        (&["db-0", "-o", "xml"], &["--output", "xml"]),
        (&["db-0", "--colour"], &["--colour"]),
        (&["db-0", "--requester=me"], &["spec.requesters[0].name"]),
        (&["db-0", "--reason=no reason"], &["spec.requesters[0].reason"]),
        (&[], &["POD"]),
    ] {
        let mut all = vec!["create", "evacuation"];
        all.extend(arguments);
        assert_has(&desk.fails(1, &all).await, expected);
    }
    assert_eq!(desk.count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_taken_as_kubectl_prints_their_names() {
    let desk = Desk::new("names").await;
    desk.silent_pod("db-0").await;
    let names = desk.kubectl(&["get", "pods", "-o", "name"]).await;
    assert_eq!(names.trim(), "pod/db-0");
    desk.kubectl(&["create", "evacuation", names.trim(), "--grace-period=-1"]).await;
    let entry = desk.evacuation_of("db-0").await.spec.requesters.remove(0);
    assert_eq!(entry.grace_period_seconds, None, "the pod's own");
}

#[tokio::test(flavor = "multi_thread")]
async fn help_explains_itself() {
    let desk = Desk::new("help").await;
    for (plugin, expected) in [
        (&["create", "evacuation", "--help"][..], "kubectl create evacuation"),
        (&["evacuate", "--help"], "kubectl evacuate"),
        (&["evacuate", "node", "--help"], "kubectl evacuate node"),
    ] {
        let output = desk.platform().kubectl(plugin).await.unwrap();
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_has(&output.stdout, &[expected, "Usage:"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_without_rights_is_told_so() {
    let desk = Desk::new("rights").await;
    desk.silent_pod("db-0").await;
    let error = desk.fails(1, &["create", "evacuation", "db-0", "--as=stranger"]).await;
    assert_has(&error, &["stranger", "cannot create", "evacuations"]);
}
