//! Flux: the library by which kustomize-controller applies, with its options.

use serde_json::{Value, json};

use crate::{
    program::{STEPS, all_gone, drift, settled, step, stored_by},
    workbench::{Configuration, Workbench, managers},
};

/// Returns the report that has this action for each object.
fn all(configurations: &[Configuration], action: &str) -> Value {
    let subject = |configuration: &Configuration| {
        let object = &configuration.object;
        let namespace =
            object["metadata"]["namespace"].as_str().map_or(String::new(), |name| format!("{name}/"));
        let subject = format!("{}/{namespace}{}", object["kind"].as_str().unwrap(), configuration.name());
        (subject, json!(action))
    };
    json!(configurations.iter().map(subject).collect::<serde_json::Map<_, _>>())
}

#[tokio::test(flavor = "multi_thread")]
async fn flux_applies_once_corrects_drift_and_prunes() {
    let bench = Workbench::new("flux").await;
    let wanted = bench.configurations();
    let created = step(&bench, STEPS, &["flux-apply"], &wanted).await;
    assert_eq!(created, all(&wanted, "created"));
    let before = stored_by(&bench, &wanted, "kustomize-controller Apply").await;
    for object in &before {
        assert_eq!(object["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"], "app");
    }
    let again = step(&bench, STEPS, &["flux-apply"], &wanted).await;
    assert_eq!(again, all(&wanted, "unchanged"));
    assert_eq!(settled(&bench, &wanted).await, before);

    drift(&bench, &wanted).await;
    for configuration in &wanted {
        let arguments = ["label", configuration.plural, configuration.name(), "app=other", "--overwrite"];
        bench.kubectl(&arguments).await;
    }
    let corrected = step(&bench, STEPS, &["flux-apply"], &wanted).await;
    assert_eq!(corrected, all(&wanted, "configured"));
    for (configuration, object) in wanted.iter().zip(settled(&bench, &wanted).await) {
        assert_eq!(configuration.value(&object), configuration.value(&configuration.object));
        assert_eq!(object["metadata"]["labels"]["app"], "db");
        assert!(!managers(&object).contains(&"kubectl-label Update".to_owned()), "{object}");
    }
    let again = step(&bench, STEPS, &["flux-apply"], &wanted).await;
    assert_eq!(again, all(&wanted, "unchanged"));

    let deleted = step(&bench, STEPS, &["flux-delete"], &wanted).await;
    assert_eq!(deleted, all(&wanted, "deleted"));
    all_gone(&bench, &wanted).await;
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flux_takes_over_what_kubectl_applied_and_removes_fields() {
    let bench = Workbench::new("fluxover").await;
    let wanted = bench.configurations();
    for configuration in &wanted {
        let file = bench.file(configuration);
        bench.kubectl(&["apply", "-f", &file]).await;
    }
    let taken = step(&bench, STEPS, &["flux-apply"], &wanted).await;
    assert_eq!(taken, all(&wanted, "configured"));
    for object in stored_by(&bench, &wanted, "kustomize-controller Apply").await {
        assert!(object["metadata"].get("annotations").is_none(), "no last-applied-configuration: {object}");
    }
    let shortened = wanted.each_ref().map(Configuration::shortened);
    let removed = step(&bench, STEPS, &["flux-apply"], &shortened).await;
    assert_eq!(removed, all(&wanted, "configured"));
    for (configuration, object) in wanted.iter().zip(settled(&bench, &wanted).await) {
        assert_eq!(configuration.value(&object), configuration.default, "{object}");
    }
    bench.close().await;
}
