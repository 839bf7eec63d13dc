use std::time::{Duration, Instant};

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::Evacuation;
use evacuation_e2e::{
    PodSpec,
    scene::{ASKER, PATIENCE, entry, post, refused_saying, wanting},
};
use futures::future::join_all;
use k8s_openapi::{api::core::v1::ResourceQuota, apimachinery::pkg::api::resource::Quantity};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::stage::Stage;

const COUNT: &str = "count/evacuations.evacuation.dev";

/// Time between changes of the quota. Each one makes kube-controller-manager count again, and makes its write
/// of what it has just counted fail.
const CHANGE_EVERY: Duration = Duration::from_secs(5);

/// Waits until kube-controller-manager has counted that many. It learns of a new API within 30 s, and counts
/// again when the quota changes.
async fn counted(stage: &Stage, used: &str) {
    let quotas = stage.api::<ResourceQuota>();
    let (mut other, mut changed) = (1000, None::<Instant>);
    let counted = eventually(PATIENCE, "the quota is counted", || {
        let due = changed.is_none_or(|changed| changed.elapsed() > CHANGE_EVERY);
        if due {
            changed = Some(Instant::now());
            other += 1;
        }
        let change = Patch::Merge(json!({"spec": {"hard": {"secrets": other.to_string()}}}));
        let quotas = quotas.clone();
        async move {
            if due {
                quotas.patch("few", &PatchParams::default(), &change).await?;
            }
            let quota = quotas.get("few").await?;
            let status = quota.status.unwrap_or_default();
            match status.used.unwrap_or_default().get(COUNT) {
                Some(Quantity(number)) if number == used => Ok(()),
                other => bail!("{other:?}"),
            }
        }
    });
    counted.await.unwrap();
}

#[tokio::test]
async fn a_quota_holds_exactly_under_many_creations_at_once() {
    let stage = Stage::new("quota").await;
    let names: Vec<String> = (0..20).map(|number| format!("db-{number}")).collect();
    join_all(names.iter().map(|name| stage.pod(name, PodSpec::watching()))).await;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {COUNT: "5"}}});
    stage.create::<ResourceQuota>(quota).await;
    counted(&stage, "0").await;
    let requester = |name: &str| {
        let mut wanted = wanting(name, &[entry(ASKER, json!({}))]);
        wanted.metadata.name = Some(name.to_owned());
        wanted
    };
    // A dry run is checked, and not charged.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    for name in &names {
        let created = eventually(PATIENCE, "the server knows the quota", || async {
            stage.evacuations().create(&dry, &requester(name)).await.map(drop)
        });
        created.await.unwrap();
    }
    let params = PostParams::default();
    let creations = names.iter().map(|name| {
        let (api, wanted, params) = (stage.evacuations(), requester(name), &params);
        async move { api.create(params, &wanted).await }
    });
    let results: Vec<kube::Result<Evacuation>> = join_all(creations).await;
    let (created, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((created.len(), refused.len()), (5, 15), "{refused:?}");
    let text = format!("exceeded quota: few, requested: {COUNT}=1, used: {COUNT}=5, limited: {COUNT}=5");
    for result in refused {
        let status = refused_saying(result, 403, &text);
        assert_eq!(status.reason, "Forbidden");
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        assert!(causes.iter().any(|cause| cause.reason == "ResourceQuota"), "{causes:?}");
    }
    assert_eq!(stage.evacuations().list(&ListParams::default()).await.unwrap().items.len(), 5);
    let wanted = serde_json::to_value(requester("db-0")).unwrap();
    let dry = post(&stage.admin(), stage.namespace(), "?dryRun=All", &wanted).await;
    assert_eq!(dry.code, 403, "{dry:?}");

    // What is deleted makes room again, once kube-controller-manager has counted.
    let all = (DeleteParams::default(), ListParams::default());
    stage.evacuations().delete_collection(&all.0, &all.1).await.unwrap();
    counted(&stage, "0").await;
    let again = eventually(PATIENCE, "there is room", || async {
        stage.evacuations().create(&params, &requester("db-19")).await.map(drop)
    });
    again.await.unwrap();
    stage.end().await;
}
