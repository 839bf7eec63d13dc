//! Warnings for those who write annotations.

use evacuation_e2e::{Pool, Scene};
use k8s_openapi::api::{batch::v1::CronJob, core::v1::Pod};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_has, options, run};

/// A Deployment with that annotation in its template.
pub(crate) fn deployment(responders: &str) -> String {
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
    assert_has(&apply("[").await, &["Warning: Deployment web: ", place, "is not JSON"]);
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

/// Returns how often the kube-apiserver has called the webhook that warns.
async fn calls(stage: &Stage) -> u64 {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = stage.admin().request_text(request).await.unwrap();
    let of_webhook = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_request_total")
            && line.contains("name=\"warn.gateway.evacuation.dev\"")
    };
    let counts =
        text.lines().filter(of_webhook).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

/// The namespace of a pod is created by other tests, too, so the scene has a platform of its own.
static POOL: Pool = Pool::new(1, options);

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_that_warns_is_called_only_for_objects_with_an_annotation_of_the_project() {
    let stage = Stage::of(Scene::from_pool("warnfew", &POOL)).await;
    let template = |annotations: &Value| {
        json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations},
               "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app"}]}})
    };
    let job = |name: &str, annotations: &Value| -> CronJob {
        let spec = json!({"schedule": "0 0 1 1 *", "suspend": true,
                          "jobTemplate": {"spec": {"template": template(annotations)}}});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    };
    let pod = |name: &str, annotations: &Value| -> Pod {
        let mut pod = template(annotations);
        pod["metadata"]["name"] = json!(name);
        serde_json::from_value(pod).unwrap()
    };
    let others = json!({"acme.io/evacuation.dev": "x", "notevacuation.dev/responders": "["});
    let before = calls(&stage).await;
    stage.api::<Pod>().create(&PostParams::default(), &pod("plain", &others)).await.unwrap();
    stage.api::<CronJob>().create(&PostParams::default(), &job("plain", &others)).await.unwrap();
    assert_eq!(calls(&stage).await, before);
    let ours = json!({"evacuation.dev/responders": "["});
    stage.api::<CronJob>().create(&PostParams::default(), &job("ours", &ours)).await.unwrap();
    assert_eq!(calls(&stage).await, before + 1);
    let of_gateway = json!({"gateway.evacuation.dev/ask": "all"});
    stage.api::<Pod>().create(&PostParams::default(), &pod("ours", &of_gateway)).await.unwrap();
    assert_eq!(calls(&stage).await, before + 2);
}
