//! `kubectl apply --server-side` and `kubectl diff`.

use chrono::{TimeDelta, Utc};
use controlplane::output_of;
use evacuation_e2e::scene::until_time;
use serde_json::{Value, json};

use crate::workbench::{Configuration, Workbench, assert_has, managers, ownership};

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_creates_an_object_and_the_same_apply_changes_nothing() {
    let bench = Workbench::new("apply").await;
    let wanted = bench.configurations();
    for configuration in &wanted {
        assert_eq!(bench.find(configuration).await, None);
        bench.applied(configuration, &[]).await;
        let created = bench.settled(configuration).await;
        assert_eq!(configuration.value(&created), configuration.value(&configuration.object));
        assert_eq!(managers(&created), ["kubectl Apply"]);
        let owned = &ownership(&created, "kubectl", "Apply")["fieldsV1"];
        assert_eq!(owned["f:metadata"], json!({"f:labels": {"f:app": {}}}), "{owned}");
        assert!(created["metadata"].get("annotations").is_none(), "{created}");
    }
    // The times of ownership have whole seconds.
    until_time(Utc::now() + TimeDelta::seconds(1)).await;
    for configuration in &wanted {
        let before = bench.settled(configuration).await;
        bench.applied(configuration, &[]).await;
        assert_eq!(bench.read(configuration).await, before, "nothing changed, not even resourceVersion");
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_changes_a_field_and_removes_one_that_is_no_longer_applied() {
    let bench = Workbench::new("removal").await;
    for configuration in bench.configurations() {
        bench.applied(&configuration, &[]).await;
        let before = bench.settled(&configuration).await;
        bench.applied(&configuration.changed(), &[]).await;
        let changed = bench.settled(&configuration).await;
        assert_eq!(configuration.value(&changed), configuration.other);
        assert_ne!(changed["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);

        let mut shortened = configuration.shortened();
        shortened.object["metadata"].as_object_mut().unwrap().remove("labels");
        bench.applied(&shortened, &[]).await;
        let left = bench.settled(&configuration).await;
        assert_eq!(configuration.value(&left), configuration.default, "{left}");
        assert_eq!(left["metadata"].get("labels"), None, "{left}");
        assert_eq!(left["metadata"]["uid"], before["metadata"]["uid"]);
        assert!(ownership(&left, "kubectl", "Apply")["fieldsV1"].get("f:metadata").is_none(), "{left}");
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_is_empty_after_an_apply_of_either_side_and_shows_a_change() {
    for (prefix, side) in [("diffserver", &["--server-side"][..]), ("diffclient", &[])] {
        let bench = Workbench::new(prefix).await;
        for configuration in bench.configurations() {
            let file = bench.file(&configuration);
            let arguments = |verb: &'static str| [&[verb, "-f", &file], side].concat();
            let new = bench.run(&arguments("diff")).await;
            assert_eq!(new.code, Some(1), "{new:?}");
            bench.kubectl(&arguments("apply")).await;
            bench.settled(&configuration).await;
            let same = bench.run(&arguments("diff")).await;
            assert_eq!(
                (same.code, same.stdout.as_str()),
                (Some(0), ""),
                "{}: {same:?}",
                configuration.plural
            );

            bench.file(&configuration.changed());
            let before = bench.read(&configuration).await;
            let changed = bench.run(&arguments("diff")).await;
            assert_eq!(changed.code, Some(1), "{changed:?}");
            let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (old, new) = (plain(&configuration.value(&before)), plain(&configuration.other));
            assert_has(&changed.stdout, &[&format!(": {old}\n"), &format!(": {new}\n")]);
            assert_eq!(bench.read(&configuration).await, before, "a diff changes nothing");
        }
        bench.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_on_the_server_shows_the_result_and_stores_nothing() {
    let bench = Workbench::new("dryrun").await;
    for configuration in bench.configurations() {
        let dry = |file: &str| {
            ["apply", "--server-side", "--dry-run=server", "-o", "json", "-f", file].map(str::to_owned)
        };
        let shown = async |file: String| {
            let arguments = dry(&file);
            let text = bench.kubectl(&arguments.each_ref().map(String::as_str)).await;
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let shown_new = shown(bench.file(&configuration)).await;
        assert!(shown_new["metadata"]["uid"].is_string(), "{shown_new}");
        assert_eq!(bench.find(&configuration).await, None);

        bench.applied(&configuration, &[]).await;
        let before = bench.settled(&configuration).await;
        let shown_changed = shown(bench.file(&configuration.changed())).await;
        assert_eq!(configuration.value(&shown_changed), configuration.other);
        assert_eq!(bench.read(&configuration).await, before);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn get_shows_managed_fields_when_it_is_asked_to() {
    let bench = Workbench::new("show").await;
    for configuration in bench.configurations() {
        bench.applied(&configuration, &["--field-manager=acme"]).await;
        let stored = bench.settled(&configuration).await;
        let get = ["get", configuration.plural, configuration.name(), "-o", "json"];
        let hidden: Value = serde_json::from_str(&bench.kubectl(&get).await).unwrap();
        assert!(hidden["metadata"].get("managedFields").is_none(), "{hidden}");
        let get = [&get[..], &["--show-managed-fields"]].concat();
        let shown: Value = serde_json::from_str(&bench.kubectl(&get).await).unwrap();
        assert_eq!(shown["metadata"]["managedFields"], stored["metadata"]["managedFields"]);
        let entry = ownership(&shown, "acme", "Apply");
        assert_eq!(entry["apiVersion"], "evacuation.dev/v1alpha1");
        assert_eq!(entry["fieldsType"], "FieldsV1");
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_refused_by_name() {
    let bench = Workbench::new("unknown").await;
    for mut configuration in bench.configurations() {
        configuration.object["spec"]["colour"] = json!("red");
        let file = bench.file(&configuration);
        for side in ["--server-side", "--server-side=false"] {
            let error = bench.fails(&["apply", side, "-f", &file]).await;
            assert_has(&error, &["colour"]);
        }
        assert_eq!(bench.find(&configuration).await, None);
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_set_prunes_what_its_files_no_longer_have() {
    let bench = Workbench::new("applyset").await;
    let (responder, evacuation) = (bench.responder(), bench.evacuation());
    let applies = async |configurations: &[&Configuration]| {
        let files: Vec<_> = configurations.iter().map(|configuration| bench.file(configuration)).collect();
        let mut command = bench.command(&["apply", "--server-side", "--prune", "--applyset=configmaps/set"]);
        command.env("KUBECTL_APPLYSET", "true").args(files.iter().flat_map(|file| ["-f", file]));
        let output = output_of("kubectl", command).await.unwrap();
        assert!(output.success(), "{output:?}");
        output.stdout
    };
    applies(&[&responder, &evacuation]).await;
    assert!(bench.find(&evacuation).await.is_some());
    let said = applies(&[&responder]).await;
    assert_has(&said, &[&format!("{} pruned", evacuation.printed())]);
    assert!(
        bench.find(&evacuation).await.is_none_or(|left| left["metadata"]["deletionTimestamp"].is_string())
    );
    assert!(bench.read(&responder).await["metadata"].get("deletionTimestamp").is_none());
    bench.close().await;
}
