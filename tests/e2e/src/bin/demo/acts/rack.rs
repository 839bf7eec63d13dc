//! Three nodes are drained at once, shown live: one app needs time, a budget holds another for a while.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use anyhow::ensure;
use async_trait::async_trait;
use evacuation_client::{Answer, Handler, Question, Responder};
use evacuation_e2e::pod_client;
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{audit::millis, recording::Recording, stage::Stage};

/// The nodes.
const RACK: [&str; 3] = ["rack-7a", "rack-7b", "rack-7c"];
/// Work of the app that needs time.
const WORK: Duration = Duration::from_secs(14);
/// Jobs of the app that needs time.
const JOBS: u64 = 42;
/// Time after which the owner of the budget loosens it.
const BUDGET: Duration = Duration::from_secs(9);
/// The command.
const COMMAND: [&str; 10] = [
    "evacuate",
    "node",
    RACK[0],
    RACK[1],
    RACK[2],
    "--reason",
    "KernelUpgrade",
    "--name",
    "rack-7",
    "--timeout=90s",
];

/// Drains the rack. With `record` the terminal of the drain is returned.
pub(crate) async fn rack(stage: &Stage<'_>, record: bool) -> anyhow::Result<Option<Recording>> {
    let (worker, ledgers) = enter(stage).await?;
    let client = pod_client(stage.platform(), &worker).await?;
    let app = tokio::spawn(Responder::of_pod(client).run(Jobs { begun: tokio::sync::OnceCell::new() }));
    let loosened = async {
        tokio::time::sleep(BUDGET).await;
        loosen(stage).await
    };
    let (drained, loosened) = tokio::join!(drain(stage, record), loosened);
    app.abort();
    loosened?;
    let (recording, code) = drained?;
    ensure!(code == Some(0), "draining the rack ended with {code:?}");
    let audit = stage.audit()?;
    let (asked, evicted) = (audit.first_answer(&worker)?, audit.evicted(&worker)?);
    ensure!(audit.last_answer(&worker)? < evicted, "jobs was evicted before it accepted");
    stage.tell(format!("audit: jobs asked for time, and was evicted {} ms later", millis(asked, evicted)));
    let changed = audit.budget_changed("ledger", stage.namespace())?;
    for ledger in &ledgers {
        let evicted = audit.evicted(ledger)?;
        ensure!(changed < evicted, "{} was evicted although its budget allowed none", ledger.name_any());
    }
    stage.tell("audit: no ledger pod was evicted before its budget allowed it");
    Ok(recording)
}

/// Brings the apps onto the rack. Returns the pod that needs time, and those under the budget.
async fn enter(stage: &Stage<'_>) -> anyhow::Result<(Pod, Vec<Pod>)> {
    for node in RACK {
        stage.platform().control_plane().add_node(node, &[]).await?;
    }
    stage.open(stage.node(), false).await?;
    stage.open_others(false).await?;
    let watching = json!([{"name": "self"}]);
    stage.deploy_numbered("api", 9, None).await?;
    stage.deploy_numbered("ledger", 2, None).await?;
    stage.deploy_numbered("jobs", 1, Some(&watching)).await?;
    stage.pods().budget("ledger", ("app", "ledger"), 0).await?;
    stage.ready("api", 9).await?;
    let ledgers = stage.ready("ledger", 2).await?;
    let mut jobs = stage.ready("jobs", 1).await?;
    stage.open_others(true).await?;
    stage.tell(format!("three nodes, {}, run nine pods of api, and:", RACK.join(", ")));
    stage.tell(format!("  jobs     needs {} s first", WORK.as_secs()));
    stage
        .tell(format!("  ledger   two replicas, under a budget that allows none for {} s", BUDGET.as_secs()));
    Ok((jobs.remove(0), ledgers))
}

/// Runs the command: recorded, on the terminal of the demo, or as lines.
async fn drain(stage: &Stage<'_>, record: bool) -> anyhow::Result<(Option<Recording>, Option<i32>)> {
    if !record && !std::io::stdout().is_terminal() {
        return Ok((None, stage.operator(&COMMAND).await?.code));
    }
    stage.tell(format!("$ kubectl {}", COMMAND.join(" ")));
    let mut command = stage.platform().kubectl_command();
    command.args(COMMAND);
    if record {
        let mut recording = Recording::default();
        let code = recording.run(&self::command(), &command).await?.code;
        return Ok((Some(recording), code));
    }
    Ok((None, tokio::process::Command::from(command).status().await?.code()))
}

/// Returns the command as a person types it.
pub(crate) fn command() -> String {
    format!("kubectl {}", COMMAND.join(" "))
}

/// Does what the owner of the budget does after a while.
async fn loosen(stage: &Stage<'_>) -> anyhow::Result<()> {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.platform().client()?, stage.namespace());
    let patch = Patch::Merge(json!({"spec": {"maxUnavailable": 1}}));
    budgets.patch("ledger", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// An app that lets go when its jobs are done.
struct Jobs {
    begun: tokio::sync::OnceCell<Instant>,
}

#[async_trait]
impl Handler for Jobs {
    async fn asked(&self, _: Question) -> Answer {
        let begun = self.begun.get_or_init(async || Instant::now()).await;
        let rest = WORK.saturating_sub(begun.elapsed());
        if rest.is_zero() {
            return Answer::accept();
        }
        let jobs = rest.as_secs().saturating_mul(JOBS).div_ceil(WORK.as_secs());
        Answer::delay(rest.min(Duration::from_secs(6))).ask_again().message(format!("{jobs} jobs left"))
    }
}
