//! The app that refused is asked again, by somebody who waits no longer than until a deadline.

use anyhow::{Context, ensure};
use controlplane::AuditEvent;
use evacuation_api::Answer;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    acts::{Cast, answer},
    audit::millis,
    stage::Stage,
};

pub(crate) async fn overridden(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let backup = cast.backup.name_any();
    let create = ["create", "evacuation", &backup, "--reason", "SpotReclaim"];
    let policy = ["--on-refusal", "Wait", "--deadline", "5s", "--at-deadline", "Evict"];
    let wait = ["--wait", "--timeout", "60s"];
    let ended = stage.operator(&[&create[..], &policy, &wait].concat()).await?;
    ensure!(ended.code == Some(0), "evacuating backup did not succeed: {ended:?}");
    let (answer, deadline) = recorded(stage, cast).await?;
    ensure!(answer == Some(Answer::Refuse), "backup did not refuse again");
    let audit = stage.audit()?;
    for eviction in audit.evictions(&cast.backup).filter_map(AuditEvent::received) {
        ensure!(
            deadline <= eviction,
            "backup was evicted {} ms before the deadline although it refused",
            millis(eviction, deadline)
        );
    }
    stage.tell(format!(
        "audit: backup refused again, and was evicted {} ms after the deadline",
        millis(deadline, audit.evicted(&cast.backup)?)
    ));
    Ok(())
}

/// The app's answer, and the end of its delay.
async fn recorded(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<(Option<Answer>, Timestamp)> {
    let evacuations = stage.evacuations_of(&cast.backup).await?;
    let (evacuation, deadline) = evacuations
        .iter()
        .find_map(|e| Some((e, e.spec.requesters.iter().find_map(|r| r.deadline)?)))
        .context("no Evacuation of backup has a deadline")?;
    Ok((answer(evacuation), Timestamp::from_microsecond(deadline.time().timestamp_micros())?))
}
