//! Night: one drain waits for a budget, one for a dead node, and then the controller dies. Each screen must
//! name what holds the drain, or nothing is drawn.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use controlplane::eventually;
use evacuation_api::{DrainBlockerReason, DrainVerdict, NodeEvacuation};
use evacuation_protocol::NO_CONTROLLER;
use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{Node, Pod},
    },
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    recording::{Recording, Shown},
    stage::Stage,
};

/// Node whose drain a budget holds.
const BUDGETED: &str = "node-a";
/// Node without a kubelet.
const DEAD: &str = "node-b";
/// Commands that create the drains.
const DRAINS: [&[&str]; 2] = [
    &["evacuate", "node", BUDGETED, "--reason", "KernelUpgrade", "--detach"],
    &["evacuate", "node", DEAD, "--reason", "NodeRepair", "--grace-period=5", "--detach"],
];
/// Time limit for a drain to be stuck, and for the controller's lease to be stale, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Records the commands of the person on call.
pub(crate) async fn night(stage: &Stage<'_>) -> anyhow::Result<Recording> {
    enter(stage).await?;
    for drain in DRAINS {
        let created = stage.operator(drain).await?;
        ensure!(created.code == Some(0), "the drain was not created: {created:?}");
    }
    stuck(stage, BUDGETED, DrainBlockerReason::BudgetAllowsNone, 3).await?;
    stuck(stage, DEAD, DrainBlockerReason::NodeUnreachable, 0).await?;
    let mut recording = Recording::default();
    let budget = ["budget ledger", "allows no", "does not prevent"];
    let dead = ["Node node-b does not report", "node/node-b with 1 pod", "kubectl taint node"];
    for (node, words) in [(BUDGETED, budget), (DEAD, dead)] {
        let shown = show(stage, &mut recording, &["evacuate", "status", node, "--watch=false"]).await?;
        holds(&shown, &words)?;
    }
    lose_controller(stage).await?;
    let shown = show(stage, &mut recording, &["evacuate", "status", "--watch=false"]).await?;
    let look = "Look at: kubectl evacuate check";
    holds(
        &shown,
        &[
            NO_CONTROLLER,
            "evacuation-system/evacuation-controller",
            " ago",
            look,
            BUDGETED,
            DEAD,
            "waits for",
        ],
    )?;
    ensure!(!shown.text.contains("what helps"), "it would do nothing: {}", shown.text);
    Ok(recording)
}

/// Brings the apps onto both nodes. The kubelet of the second one does not report.
async fn enter(stage: &Stage<'_>) -> anyhow::Result<()> {
    stage.platform().control_plane().add_node(BUDGETED, &[]).await?;
    stage.open(stage.node(), false).await?;
    stage.open_others(false).await?;
    stage.deploy("api", 3, None).await?;
    stage.deploy_numbered("ledger", 1, None).await?;
    stage.pods().budget("ledger", ("app", "ledger"), 0).await?;
    stage.ready("api", 3).await?;
    stage.ready("ledger", 1).await?;
    stage.open_others(true).await?;
    add_dead_node(stage).await?;
    stage.tell(format!(
        "node {BUDGETED} runs three pods of api, and ledger-0 under a budget that allows none"
    ));
    stage.tell(format!("node {DEAD} ran cache-0, and its kubelet does not report"));
    Ok(())
}

/// Adds a node that no kubelet plays, with a pod that ran when the node last reported.
async fn add_dead_node(stage: &Stage<'_>) -> anyhow::Result<()> {
    let client = stage.platform().client()?;
    let now = Timestamp::now().to_string();
    let node = json!({"metadata": {"name": DEAD, "labels": {"kubernetes.io/hostname": DEAD}}});
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    let silent = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [silent]}}));
    nodes.patch_status(DEAD, &PatchParams::default(), &patch).await?;

    let mut cache = evacuation_e2e::workload("cache", 1, &json!(null));
    let pod = cache.pointer_mut("/spec/template/spec").context("a workload has a pod")?;
    *pod = json!({"nodeName": DEAD, "containers": [{"name": "app", "image": "app"}]});
    let mut cache: StatefulSet = serde_json::from_value(cache)?;
    cache.spec.pod_management_policy = Some("Parallel".to_owned());
    let sets: Api<StatefulSet> = Api::namespaced(client, stage.namespace());
    sets.create(&PostParams::default(), &cache).await?;
    let pods: Api<Pod> = stage.pods().api();
    let ran = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now}],
        "containerStatuses": [{
            "name": "app", "image": "app", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }],
    }});
    eventually(PATIENCE, "the dead node has its pod", || async {
        pods.patch_status("cache-0", &PatchParams::default(), &Patch::Merge(&ran)).await.map(drop)
    })
    .await?;
    Ok(())
}

/// Waits until the drain of a node is stuck for that reason, and that many of its pods are gone.
async fn stuck(stage: &Stage<'_>, node: &str, reason: DrainBlockerReason, gone: i32) -> anyhow::Result<()> {
    let drains: Api<NodeEvacuation> = Api::all(stage.platform().client()?);
    eventually(PATIENCE, &format!("the drain of {node} is stuck: {reason:?}"), || async {
        let mut all = drains.list(&ListParams::default()).await?.into_iter();
        let drain = all.find(|drain| drain.name_any().starts_with(node)).context("there is no drain")?;
        let status = drain.status.clone().unwrap_or_default();
        let held = !status.blockers.is_empty()
            && status.blockers.iter().all(|blocker| blocker.reason == reason.as_str() && blocker.stuck);
        if drain.verdict() != DrainVerdict::Stuck || !held || status.pods.gone != gone {
            bail!("{}", serde_json::to_string(&status)?);
        }
        Ok(())
    })
    .await?;
    stage.tell(format!("the drain of {node} is stuck"));
    Ok(())
}

/// Kills the controller, and waits until the API server warns that none works.
async fn lose_controller(stage: &Stage<'_>) -> anyhow::Result<()> {
    let (leader, _) = stage.platform().leader().await?;
    leader.kill()?;
    stage.tell("the controller is killed");
    eventually(PATIENCE, "the API server warns that no controller works", || async {
        let output = stage.platform().kubectl(&["evacuate", "status", "--watch=false"]).await?;
        if output.stderr.contains(NO_CONTROLLER) { Ok(()) } else { bail!("{output:?}") }
    })
    .await?;
    Ok(())
}

/// Runs a command of kubectl on the recorded terminal.
async fn show(stage: &Stage<'_>, recording: &mut Recording, arguments: &[&str]) -> anyhow::Result<Shown> {
    let typed = format!("kubectl {}", arguments.join(" "));
    let mut command = stage.platform().kubectl_command();
    command.args(arguments);
    let shown = recording.run(&typed, &command).await?;
    stage.tell(format!("$ {typed}\n{}", shown.text));
    ensure!(shown.code == Some(0), "{typed} ended with {:?}", shown.code);
    Ok(shown)
}

/// Fails unless a screen has all of the words. The terminal folds its lines.
fn holds(shown: &Shown, words: &[&str]) -> anyhow::Result<()> {
    let unfolded = shown.text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        ensure!(unfolded.contains(word), "{word:?} is not on the screen: {}", shown.text);
    }
    Ok(())
}
