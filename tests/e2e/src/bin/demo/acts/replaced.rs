//! A single replica whose budget lets none go: its replacement is ready before it goes, by a
//! built-in responder.

use anyhow::{Context, ensure};
use evacuation_api::{EvacuationResponder, REPLACEMENT_RESPONDER};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;

use crate::{acts::Cast, audit::millis, stage::Stage};

pub(crate) async fn replaced(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let registration: EvacuationResponder = serde_json::from_value(json!({
        "metadata": {"name": "replacement"},
        "spec": {"selector": {"matchLabels": {"app": "catalog"}}, "name": REPLACEMENT_RESPONDER},
    }))?;
    Api::namespaced(stage.platform().client()?, stage.namespace())
        .create(&PostParams::default(), &registration)
        .await?;
    stage.tell(format!("an EvacuationResponder names {REPLACEMENT_RESPONDER} for catalog"));
    let catalog = cast.catalog.name_any();
    let create = ["create", "evacuation", &catalog, "--reason", "NodeMaintenance"];
    let wait = ["--wait", "--timeout", "60s"];
    let ended = stage.operator(&[&create[..], &wait].concat()).await?;
    ensure!(ended.code == Some(0), "evacuating catalog did not succeed: {ended:?}");
    let replacement = stage.ready("catalog", 1).await?.pop();
    let replacement = replacement.context("catalog has a replacement")?;
    let audit = stage.audit()?;
    let ready = audit.last_status(&replacement).context("nothing was reported of catalog's replacement")?;
    let evicted = audit.evicted(&cast.catalog)?;
    ensure!(
        ready <= evicted,
        "catalog was evicted {} ms before its replacement was ready",
        millis(evicted, ready)
    );
    stage.tell(format!(
        "audit: catalog's replacement was ready {} ms before catalog was evicted",
        millis(ready, evicted)
    ));
    Ok(())
}
