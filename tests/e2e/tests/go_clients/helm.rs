//! Helm 4, the program itself.

use controlplane::Output;
use serde_json::{Value, json};

use crate::{
    program::{HELM, all_gone, drift, run, settled, stored_by},
    workbench::{Configuration, Workbench, assert_has, managers},
};

/// Name of the release.
const RELEASE: &str = "app";

/// Writes a chart with an object of each configuration, whose fields are its values, and returns its folder.
fn chart(bench: &Workbench, configurations: &[Configuration]) -> String {
    let folder = bench.folder().join("chart");
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    write("Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n".to_owned());
    let mut values = json!({});
    for configuration in configurations {
        let mut template = configuration.clone();
        let value = configuration.value(&configuration.object);
        if !value.is_null() {
            *template.object.pointer_mut(configuration.field).unwrap() = json!("@value@");
            values[configuration.plural] = value;
        }
        let name = format!("{{{{ .Values.{} | toJson }}}}", configuration.plural);
        let text = format!("{:#}\n", template.object).replace("\"@value@\"", &name);
        write(&format!("templates/{}.yaml", configuration.plural), text);
    }
    write("values.yaml", values.to_string());
    folder.display().to_string()
}

/// Runs Helm in the namespace.
async fn helm(bench: &Workbench, arguments: &[&str]) -> Output {
    let arguments = [arguments, &["--namespace", bench.namespace(), "--timeout=60s"]].concat();
    run(bench, HELM, &arguments).await
}

/// Runs Helm in the namespace, which must succeed.
async fn helms(bench: &Workbench, arguments: &[&str]) -> String {
    let output = helm(bench, arguments).await;
    assert!(output.success(), "{arguments:?}: {}\n{}", output.stdout, output.stderr);
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let bench = Workbench::new("helm").await;
    let wanted = bench.configurations();
    let folder = chart(&bench, &wanted);
    helms(&bench, &["install", RELEASE, &folder, "--wait"]).await;
    let before = stored_by(&bench, &wanted, "helm Apply").await;
    for object in &before {
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    }
    helms(&bench, &["upgrade", RELEASE, &folder, "--wait"]).await;
    assert_eq!(settled(&bench, &wanted).await, before, "an upgrade to the same changes nothing");

    let changed = wanted.each_ref().map(Configuration::changed);
    helms(&bench, &["upgrade", RELEASE, &chart(&bench, &changed), "--wait"]).await;
    stored_by(&bench, &changed, "helm Apply").await;
    let shortened = wanted.each_ref().map(Configuration::shortened);
    helms(&bench, &["upgrade", RELEASE, &chart(&bench, &shortened), "--wait"]).await;
    for (configuration, object) in wanted.iter().zip(settled(&bench, &wanted).await) {
        assert_eq!(configuration.value(&object), configuration.default, "{object}");
    }
    helms(&bench, &["rollback", RELEASE, "1", "--wait"]).await;
    stored_by(&bench, &wanted, "helm Apply").await;

    helms(&bench, &["uninstall", RELEASE, "--wait"]).await;
    all_gone(&bench, &wanted).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_reports_a_conflict_and_forces_it_when_asked_to() {
    let bench = Workbench::new("helmforce").await;
    let wanted = [bench.responder(), bench.rule()];
    let folder = chart(&bench, &wanted);
    helms(&bench, &["install", RELEASE, &folder]).await;
    drift(&bench, &wanted).await;
    let refused = helm(&bench, &["upgrade", RELEASE, &folder]).await;
    assert!(!refused.success(), "{refused:?}");
    assert_has(&refused.stderr, &["conflict with \"intruder\"", &wanted[0].path]);
    helms(&bench, &["upgrade", RELEASE, &folder, "--force-conflicts"]).await;
    for (configuration, object) in wanted.iter().zip(settled(&bench, &wanted).await) {
        assert_eq!(configuration.value(&object), configuration.value(&configuration.object));
    }
    helms(&bench, &["uninstall", RELEASE, "--wait"]).await;
    all_gone(&bench, &wanted).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_client_side_apply_moves_to_server_side_apply() {
    let bench = Workbench::new("helmmove").await;
    let wanted = bench.configurations();
    let folder = chart(&bench, &wanted);
    helms(&bench, &["install", RELEASE, &folder, "--server-side=false"]).await;
    stored_by(&bench, &wanted, "helm Update").await;
    let shortened = wanted.each_ref().map(Configuration::shortened);
    helms(&bench, &["upgrade", RELEASE, &chart(&bench, &shortened), "--server-side=true"]).await;
    for (configuration, object) in wanted.iter().zip(settled(&bench, &wanted).await) {
        assert_eq!(configuration.value(&object), configuration.default, "{object}");
        assert_eq!(managers(&object), ["helm Apply"], "{object}");
        assert_ne!(object["metadata"]["resourceVersion"], Value::Null);
    }
    helms(&bench, &["uninstall", RELEASE, "--wait"]).await;
    all_gone(&bench, &wanted).await;
    bench.close().await;
}
