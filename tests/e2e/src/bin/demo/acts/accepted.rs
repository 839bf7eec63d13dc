//! One pod is evacuated; its app accepts.

use anyhow::ensure;
use kube::ResourceExt;

use crate::{acts::Cast, audit::millis, stage::Stage};

pub(crate) async fn accepted(stage: &Stage<'_>, cast: &Cast) -> anyhow::Result<()> {
    let web = cast.web.name_any();
    let create = ["create", "evacuation", &web, "--reason", "Rebalancing"];
    let wait = ["--wait", "--timeout", "60s"];
    let ended = stage.operator(&[&create[..], &wait].concat()).await?;
    ensure!(ended.code == Some(0), "evacuating web did not succeed: {ended:?}");
    let audit = stage.audit()?;
    let (answered, evicted) = (audit.last_answer(&cast.web)?, audit.evicted(&cast.web)?);
    ensure!(answered < evicted, "web was evicted before it accepted");
    stage.tell(format!("audit: web accepted, and was evicted {} ms later", millis(answered, evicted)));
    Ok(())
}
