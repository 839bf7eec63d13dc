//! Messages of kubectl about a bad file.

use crate::desk::{Desk, assert_has, manifest};

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_refused_by_its_name_unless_told_otherwise() {
    let desk = Desk::new("unknown").await;
    desk.silent_pod("db-0").await;
    let text = manifest("mine", "db-0").replace("onRefusal", "onRefusl");
    let file = desk.file("unknown.yaml", &text);
    let error = desk.fails(1, &["create", "-f", &file]).await;
    assert_has(&error, &["unknown field", "spec.requesters[0].onRefusl"]);
    assert_eq!(desk.count().await, 0);

    let warned = desk.run(&["create", "-f", &file, "--validate=warn"]).await;
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert_has(&warned.stderr, &["Warning: unknown field", "onRefusl"]);
    let ignored = desk.run(&["delete", "-f", &file, "--wait=false"]).await;
    assert_eq!(ignored.code, Some(0), "{ignored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_values_are_refused_by_their_field() {
    let desk = Desk::new("bad").await;
    desk.silent_pod("db-0").await;
    let good = manifest("mine", "db-0");
    for (from, to, expected) in [
        ("onRefusal: Wait", "onRefusal: Perhaps", &["onRefusal", "Perhaps"][..]),
        ("onRefusal: Wait", "gracePeriodSeconds: soon", &["gracePeriodSeconds"]),
        ("onRefusal: Wait", "gracePeriodSeconds: -1", &["spec.requesters[0].gracePeriodSeconds"]),
        ("onRefusal: Wait", "deadline: in ten minutes", &["deadline"]),
        ("reason: NodeMaintenance", "reason: node maintenance", &["spec.requesters[0].reason"]),
        ("test.evacuation.dev/file", "file", &["spec.requesters[0].name"]),
        ("name: db-0", "name: nobody", &["nobody"]),
        ("name: db-0", "name: db-0\n      uid: 0a0b", &["pod \"db-0\" has the UID", "0a0b"]),
        ("name: mine", "name: Not_A_Name", &["metadata.name"]),
    ] {
        let file = desk.file("bad.yaml", &good.replace(from, to));
        let error = desk.fails(1, &["create", "-f", &file]).await;
        assert_has(&error, expected);
    }
    assert_eq!(desk.count().await, 0);
    let file = desk.file(
        "two.yaml",
        &good
            .replace("reason: NodeMaintenance", "reason: no reason")
            .replace("onRefusal: Wait", "gracePeriodSeconds: -1"),
    );
    let error = desk.fails(1, &["create", "-f", &file]).await;
    assert_has(&error, &["spec.requesters[0].reason", "spec.requesters[0].gracePeriodSeconds"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_evacuation_of_a_pod_is_refused_with_the_name_of_the_first() {
    let desk = Desk::new("second").await;
    desk.silent_pod("db-0").await;
    let first = desk.file("first.yaml", &manifest("first", "db-0"));
    let second = desk.file("second.yaml", &manifest("second", "db-0"));
    desk.kubectl(&["create", "-f", &first]).await;
    let error = desk.fails(1, &["create", "-f", &second]).await;
    assert_has(&error, &["first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_side_dry_run_checks_everything_and_stores_nothing() {
    let desk = Desk::new("dry").await;
    desk.silent_pod("db-0").await;
    let file = desk.file("good.yaml", &manifest("mine", "db-0"));
    let text = desk.kubectl(&["create", "-f", &file, "--dry-run=server", "-o", "yaml"]).await;
    assert_has(&text, &["uid:", "user: admin"]);
    assert_eq!(desk.count().await, 0);
    let file = desk.file("bad.yaml", &manifest("mine", "nobody"));
    let error = desk.fails(1, &["create", "-f", &file, "--dry-run=server"]).await;
    assert_has(&error, &["nobody"]);
}
