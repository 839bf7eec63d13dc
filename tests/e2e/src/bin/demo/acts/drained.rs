//! A node is evacuated: one app asks for time, one refuses, two are evicted within their budget.

use anyhow::{Context, bail, ensure};
use kube::ResourceExt;

use crate::{
    acts::{Cast, cast::WORK_SECONDS},
    audit::{Audit, millis},
    stage::Stage,
};

pub(crate) async fn drained(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let evacuate = ["evacuate", "node", stage.node(), "--reason", "NodeMaintenance"];
    let details = ["--message", "kernel upgrade", "--timeout", "90s"];
    let ended = stage.operator(&[&evacuate[..], &details].concat()).await?;
    ensure!(ended.code == Some(2), "evacuating the node did not report the refusal: {ended:?}");
    stage.operator(&["get", "evacuations"]).await?;
    cast.tell(stage)?;
    let audit = stage.audit()?;
    delayed(&audit, stage, cast)?;
    refused(&audit, stage, cast).await?;
    budgeted(&audit, stage, cast).await
}

fn delayed(audit: &Audit, stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let (asked, accepted) = (audit.first_answer(&cast.worker)?, audit.last_answer(&cast.worker)?);
    let evicted = audit.evicted(&cast.worker)?;
    ensure!(accepted < evicted, "worker was evicted before it accepted");
    // The work begins when the question arrives, a moment before the first answer is recorded.
    let given = millis(asked, evicted);
    ensure!(given >= WORK_SECONDS * 1000 - 500, "worker was given only {given} ms");
    stage.tell(format!("audit: worker asked for time, and was evicted {given} ms later"));
    Ok(())
}

async fn refused(audit: &Audit, stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    ensure!(audit.evictions(&cast.backup).next().is_none(), "backup was evicted although it refused");
    ensure!(stage.runs(&cast.backup).await?, "backup is gone although it refused");
    stage.tell("audit: backup refused, nothing evicted it, it still runs");
    Ok(())
}

/// Two replicas, one may be down: the second eviction comes after a replacement of the first was ready, and
/// the API is asked at most once more than there are pods.
async fn budgeted(audit: &Audit, stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let mut times = Vec::new();
    let mut calls = 0;
    for pod in &cast.plain {
        ensure!(stage.now(pod).await?.is_none(), "{} is still there", pod.name_any());
        times.push(audit.evicted(pod)?);
        calls += audit.evictions(pod).count();
    }
    times.sort_unstable();
    let [first, second] = times.as_slice() else { bail!("plain has two replicas") };
    let mut ready = Vec::new();
    for pod in stage.app("plain").await? {
        ready.extend(audit.last_status(&pod));
    }
    let replaced = ready.iter().min().context("plain has no replacement")?;
    ensure!(
        replaced <= second,
        "the second plain pod was evicted before a replacement of the first was ready"
    );
    ensure!(calls <= cast.plain.len() + 1, "{calls} eviction calls for two pods");
    stage.tell(format!(
        "audit: plain's second pod was evicted {} ms after the first, {} ms after its replacement was ready, with {calls} eviction calls",
        millis(*first, *second),
        millis(*replaced, *second)
    ));
    Ok(())
}
