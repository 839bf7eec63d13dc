//! A request is taken back while the app still works: it learns of it, and nothing evicts it.

use anyhow::{Context, ensure};
use evacuation_api::Answer;
use kube::ResourceExt;

use crate::{
    acts::{Cast, answer},
    stage::Stage,
};

pub(crate) async fn withdrawn(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let indexer = cast.indexer.name_any();
    let created = stage.operator(&["create", "evacuation", &indexer, "--reason", "Rebalancing"]).await?;
    ensure!(created.code == Some(0), "indexer's Evacuation was not created: {created:?}");
    let evacuations = stage.evacuations_of(&cast.indexer).await?;
    let evacuation = evacuations.first().context("indexer has no Evacuation")?.name_any();
    stage
        .pods()
        .until(&evacuation, "indexer has asked for time", |e| answer(e) == Some(Answer::Delay))
        .await?;
    stage.tell("indexer has asked for time; the operator changes their mind");
    let deleted = stage.operator(&["delete", "evacuation", &evacuation]).await?;
    ensure!(deleted.code == Some(0), "indexer's Evacuation was not withdrawn: {deleted:?}");
    cast.indexing.says("was canceled: taking work again").await?;
    ensure!(
        stage.audit()?.evictions(&cast.indexer).next().is_none() && stage.runs(&cast.indexer).await?,
        "indexer was evicted although the request was withdrawn"
    );
    stage.tell("audit: indexer learned of the withdrawal, nothing evicted it, it still runs");
    Ok(())
}
