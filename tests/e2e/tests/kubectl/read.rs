//! `kubectl get`, `describe` and selectors.

use kube::ResourceExt;
use serde_json::Value;

use crate::desk::{Desk, assert_has, table};

#[tokio::test(flavor = "multi_thread")]
async fn get_shows_target_state_answer_and_age() {
    let desk = Desk::new("table").await;
    let empty = desk.run(&["get", "evacuations"]).await;
    assert_has(&empty.stderr, &["No resources found in"]);
    let name = desk.asked("db-0").await.name_any();

    let text = desk.kubectl(&["get", "evacuations"]).await;
    let rows = table(&text);
    assert_eq!(rows[0], ["NAME", "TARGET", "STATE", "ANSWER", "AGE"], "{text}");
    assert_eq!(rows.len(), 2, "{text}");
    assert_eq!(rows[1][..3], [name.as_str(), "db-0", "Asking"], "{text}");

    let text = desk.kubectl(&["get", "evac", "-o", "wide"]).await;
    let rows = table(&text);
    assert_eq!(
        rows[0],
        ["NAME", "TARGET", "STATE", "ANSWER", "REQUESTERS", "RESPONDER", "UNTIL", "AGE"],
        "{text}"
    );
    assert_eq!(rows[1][3..5], ["test.evacuation.dev/desk", "self"], "no answer yet: {text}");

    let everywhere = desk.platform().kubectl(&["get", "evac", "-A"]).await.unwrap().stdout;
    let rows = table(&everywhere);
    assert_eq!(rows[0][..2], ["NAMESPACE", "NAME"], "{everywhere}");
    let own = rows.iter().find(|row| row[0] == desk.pods.namespace());
    assert_eq!(own.unwrap()[1], name, "{everywhere}");

    let name_only = desk.kubectl(&["get", "evac", "-o", "name"]).await;
    assert_eq!(name_only.trim(), format!("evacuation.evacuation.dev/{name}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_is_in_the_table() {
    let desk = Desk::new("answer").await;
    let pod = desk.silent_pod("db-0").await;
    let _app = desk.answers(&pod, evacuation_client::Answer::refuse("a backup runs")).await;
    let name = desk.evacuation("db-0").await.name_any();
    desk.pods
        .until(&name, "the app has refused", |e| evacuation_protocol::state_word(e) == "Refused")
        .await
        .unwrap();
    let text = desk.kubectl(&["get", "evac"]).await;
    assert_eq!(table(&text)[1][..4], [name.as_str(), "db-0", "Refused", "Refuse"], "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn get_as_yaml_and_json_is_the_whole_object() {
    let desk = Desk::new("whole").await;
    let name = desk.asked("db-0").await.name_any();
    let pod = desk.pods.api().get("db-0").await.unwrap();

    let json = desk.kubectl(&["get", "evac", &name, "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let yaml = desk.kubectl(&["get", "evac", &name, "-o", "yaml"]).await;
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["apiVersion"], "evacuation.dev/v1alpha1");
    assert_eq!(json["kind"], "Evacuation");
    assert_eq!(json["spec"]["target"]["pod"]["uid"], pod.uid().unwrap());
    assert_eq!(json["status"]["requesters"][0]["user"], "admin");
    assert_eq!(json["status"]["responders"][0]["state"], "Active");

    let list = desk.kubectl(&["get", "evac", "-o", "yaml"]).await;
    let list: Value = serde_saphyr::from_str(&list).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], name);
    let path = desk.kubectl(&["get", "evac", &name, "-o", "jsonpath={.spec.requesters[*].name}"]).await;
    assert_eq!(path, "test.evacuation.dev/desk");
}

#[tokio::test(flavor = "multi_thread")]
async fn describe_shows_the_object_and_its_events() {
    let desk = Desk::new("describe").await;
    desk.plain_pod("web-0").await;
    let name = desk.evacuation("web-0").await.name_any();
    desk.pods.ended(&name).await.unwrap();
    let events = controlplane::eventually(crate::watch::PATIENCE, "events tell of the end", || async {
        let text = desk.kubectl(&["describe", "evacuation", &name]).await;
        match text.split_once("Events:") {
            Some((_, events)) if events.contains("Evicted") => Ok(text),
            _ => Err(text),
        }
    });
    let text = events.await.unwrap();
    assert_has(
        &text,
        &[
            &format!("Name:         {name}"),
            "Kind:         Evacuation",
            "Requesters:",
            "test.evacuation.dev/desk",
            "Conditions:",
            "Evicted",
        ],
    );
    let on_pod = desk
        .kubectl(&["get", "events", "--field-selector", "involvedObject.kind=Pod,involvedObject.name=web-0"])
        .await;
    assert_has(&on_pod, &["Evicted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_fields_select() {
    let desk = Desk::new("select").await;
    let first = desk.asked("db-0").await.name_any();
    desk.plain_pod("web-0").await;
    let second = desk.evacuation("web-0").await.name_any();
    desk.pods.ended(&second).await.unwrap();
    desk.kubectl(&["label", "evac", &first, "team=db"]).await;

    for (selector, expected) in [
        (["-l", "team=db"], &first),
        (["-l", "team!=db"], &second),
        (["-l", "team in (db,web)"], &first),
        (["--field-selector", "spec.target.pod.name=web-0"], &second),
        (["--field-selector", "status.finished=false"], &first),
        (["--field-selector", "status.finished!=false"], &second),
        (["--field-selector", &format!("metadata.name={first}")], &first),
    ] {
        let [flag, value] = selector;
        let found = desk.kubectl(&["get", "evac", flag, value, "-o", "name"]).await;
        assert_eq!(found.trim(), format!("evacuation.evacuation.dev/{expected}"), "{selector:?}");
    }
    let error = desk.fails(1, &["get", "evac", "--field-selector", "spec.color=red"]).await;
    assert_has(&error, &["spec.color"]);
    let error = desk.fails(1, &["get", "evac", "nobody"]).await;
    assert_has(&error, &["NotFound", "evacuations.evacuation.dev \"nobody\" not found"]);
}
