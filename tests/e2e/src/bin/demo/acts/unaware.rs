//! Plain `kubectl drain`, which knows nothing of evacuation, waits for an app.

use anyhow::{Context, ensure};
use evacuation_e2e::App;
use serde_json::json;

use crate::{audit::millis, stage::Stage};

/// Work of the app, in seconds.
const WORK_SECONDS: i64 = 8;

pub(crate) async fn unaware(stage: &Stage<'_>) -> anyhow::Result<()> {
    stage.deploy("queue", 1, Some(&json!([{"name": "self"}]))).await?;
    let queue = stage.ready("queue", 1).await?.into_iter().next().context("the deployment has a pod")?;
    let node = queue.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("the pod has a node")?;
    let work = ["--work-seconds", &WORK_SECONDS.to_string()];
    let _app = App::watching(stage.platform(), &queue, "finish_work", &work).await?;
    stage.tell(format!("queue needs {WORK_SECONDS} s, and the gateway asks it for a plain kubectl drain:"));
    let drain = ["drain", &node, "--ignore-daemonsets", "--pod-selector=app=queue", "--timeout=90s"];
    let drained = stage.operator(&drain).await?;
    ensure!(drained.code == Some(0), "kubectl drain failed: {drained:?}");
    stage.operator(&["uncordon", &node]).await?;

    let audit = stage.audit()?;
    let (asked, evicted) = (audit.first_answer(&queue)?, audit.evicted(&queue)?);
    ensure!(audit.last_answer(&queue)? < evicted, "queue was evicted before it accepted");
    let waited = audit.evictions(&queue).filter(|event| event.code() == 429).count();
    ensure!(waited > 0, "the gateway denied no call");
    let calls = if waited == 1 { "call was" } else { "calls were" };
    stage.tell(format!(
        "audit: {waited} {calls} told to wait, and queue was evicted {} ms after it asked for time",
        millis(asked, evicted)
    ));
    Ok(())
}
