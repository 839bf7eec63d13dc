//! Warnings for those who write annotations.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::stage::{Stage, assert_has, run};

/// A Deployment with that annotation in its template.
fn deployment(responders: &str) -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"evacuation.dev/responders": responders}},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            },
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_that_cannot_be_read_is_warned_of_at_creation_and_update_and_nothing_is_refused() {
    let stage = Stage::new("warn").await;
    let folder = stage.control_plane().folder().subfolder("warnings").unwrap();
    let file = folder.join("deployment.json");
    let apply = async |responders: &str| {
        std::fs::write(&file, deployment(responders)).unwrap();
        let applied = run(stage.kubectl(&["apply", "-f", &file.display().to_string()])).await;
        assert!(applied.success(), "{applied:?}");
        applied.stderr
    };
    let place = "spec.template.metadata.annotations[evacuation.dev/responders]";
    assert_has(&apply("[").await, &["Warning:", place, "is not JSON"]);
    assert_eq!(apply(r#"[{"name":"self"}]"#).await, "");
    assert_has(&apply(r#"[{"name":"self","timeoutSeconds":0}]"#).await, &["Warning:", "timeoutSeconds"]);
    assert_has(&apply(r#"[{"name":"db.acme.io/failover"}]"#).await, &["Warning:", "db.acme.io/failover"]);
    stage.register("served", "db.acme.io/failover", json!({})).await;
    let served =
        controlplane::eventually(evacuation_e2e::scene::PATIENCE, "the registration is known", || async {
            apply(r#"[{"name":"self"}]"#).await;
            let said = apply(r#"[{"name":"db.acme.io/failover"}]"#).await;
            if said.is_empty() { Ok(()) } else { Err(said) }
        });
    served.await.unwrap();

    let pod = json!({
        "metadata": {"name": "app", "annotations": {"evacuation.dev/responder": "[]"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    stage.create::<Pod>(pod).await;
}
