//! The managers that kubectl's other commands leave.

use chrono::{TimeDelta, Utc};
use controlplane::output_of;
use evacuation_e2e::scene::until_time;
use serde_json::{Value, json};

use crate::workbench::{Configuration, Workbench};

/// Returns managers, operations and the owned metadata, in the order of the managers.
fn metadata_owners(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().filter(|entry| entry["subresource"].is_null());
    let mut owners: Vec<_> = own
        .map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]["f:metadata"]]))
        .collect();
    // The entries are in the order of their times, which have whole seconds.
    owners.sort_by_key(ToString::to_string);
    owners
}

/// Runs each command on an object, and returns it as `kubectl get` shows it.
async fn after_all_commands(bench: &Workbench, plural: &str, name: &str, file: &str) -> Value {
    bench.kubectl(&["create", "-f", file]).await;
    bench.kubectl(&["label", plural, name, "team=db"]).await;
    bench.kubectl(&["annotate", plural, name, "why=because", "then=this"]).await;
    let patch = r#"{"metadata":{"labels":{"tier":"1"}}}"#;
    bench.kubectl(&["patch", plural, name, "--type=merge", "-p", patch]).await;
    let mut editor = bench.command(&["edit", plural, name]);
    editor.env("KUBE_EDITOR", "sed -i 's/why: because/why: edited/'");
    let edited = output_of("kubectl", editor).await.unwrap();
    assert!(edited.success(), "{edited:?}");
    let shown = bench.kubectl(&["get", plural, name, "-o", "json", "--show-managed-fields"]).await;
    serde_json::from_str(&shown).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_of_kubectl_leaves_the_manager_that_it_leaves_on_a_config_map() {
    let bench = Workbench::new("managers").await;
    let mut config_map = bench.responder();
    config_map.plural = "configmaps";
    config_map.object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": config_map.object["metadata"], "data": {"a": "b"},
    });
    let file = bench.file(&config_map);
    let expected = metadata_owners(&after_all_commands(&bench, "configmaps", "db", &file).await);
    let managers: Vec<_> = expected.iter().map(|entry| entry[0].as_str().unwrap()).collect();
    assert_eq!(managers.len(), 5, "{managers:?}");
    for command in ["create", "label", "annotate", "patch", "edit"] {
        assert!(managers.contains(&&*format!("kubectl-{command}")), "{managers:?}");
    }
    for configuration in bench.configurations() {
        let file = bench.file(&configuration);
        let shown = after_all_commands(&bench, configuration.plural, configuration.name(), &file).await;
        assert_eq!(shown["metadata"]["annotations"]["why"], "edited");
        assert_eq!(metadata_owners(&shown), expected, "{}", configuration.plural);
        assert_eq!(
            metadata_owners(&bench.settled(&configuration).await),
            expected,
            "{}",
            configuration.plural
        );
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_by_the_same_object_changes_nothing() {
    let bench = Workbench::new("replace").await;
    let wanted = bench.configurations();
    for configuration in &wanted {
        bench.kubectl(&["create", "-f", &bench.file(configuration)]).await;
        bench.settled(configuration).await;
    }
    // The times of ownership have whole seconds.
    until_time(Utc::now() + TimeDelta::seconds(1)).await;
    for configuration in wanted {
        let before = bench.settled(&configuration).await;
        let file = bench.file(&Configuration { object: before.clone(), ..configuration.clone() });
        for manager in ["kubectl-create", "kubectl-replace"] {
            bench.kubectl(&["replace", "-f", &file, &format!("--field-manager={manager}")]).await;
            assert_eq!(bench.read(&configuration).await, before, "{manager}");
        }
    }
    bench.close().await;
}
