//! The column `kubectl drain` of the guide's table of pods, played with a real kubectl.
//!
//! Each row has a node of its own, so that a run of kubectl sees the pods of one row. The words of a row
//! choose its pods: a row that is not known here fails.

use anyhow::bail;
use controlplane::{Output, eventually};
use evacuation_e2e::scene::PATIENCE;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::nodes::Stage;

/// The page.
const GUIDE: &str = include_str!("../../../../docs/guide/kubectl-drain.md");
/// The head of its table.
const HEAD: &str = "| pod | kubectl drain | NodeEvacuation |\n| --- | --- | --- |\n";
/// The row that no dry run can play.
const LATE: &str = "comes during the drain";
/// Finalizer that keeps each pod, whatever its owner or the garbage collector does. kubectl drain looks at no
/// finalizer, and only its flag `--skip-wait-for-delete-timeout` looks at a deletion.
const HOLD: &str = "example.com/hold";

/// Returns the rows of the table: the pod, and what kubectl drain does with it.
fn rows() -> Vec<(&'static str, &'static str)> {
    let (_, table) = GUIDE.split_once(HEAD).unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [pod, theirs, _] = cells[..] else { panic!("not a row of the table: {line}") };
        (pod, theirs)
    });
    rows.collect()
}

/// Returns the acts of a cell, each with the argument that it needs, if any.
fn acts(cell: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    cell.split("; ").map(|part| match part.split_once(" with ") {
        Some((act, flag)) => (act, Some(argument(flag.trim_matches('`')))),
        None => (part, None),
    })
}

/// Returns a flag with the value that it needs. No pod has the label.
fn argument(flag: &str) -> &str {
    match flag {
        "--pod-selector" => "--pod-selector=app=other",
        "--skip-wait-for-delete-timeout" => "--skip-wait-for-delete-timeout=1",
        other => other,
    }
}

/// Returns the pods of a row, as the fields that they have instead of those in [`create`].
fn pods(row: &str, node: &str, daemon_set: &DaemonSet) -> Vec<Value> {
    let owned_by = |owner: Value| json!({"metadata": {"ownerReferences": [owner]}});
    let annotated = |name: &str, value: &str| {
        let annotations = json!({name: value});
        json!({"metadata": {"ownerReferences": null, "annotations": annotations}})
    };
    let of_daemon_set = || {
        let uid = daemon_set.uid().unwrap();
        owned_by(owner("apps/v1", "DaemonSet", &daemon_set.name_any(), &uid))
    };
    match row {
        "with a controller, also one that does not exist" | "already terminating" | "with other labels" => {
            vec![json!({})]
        }
        "mirror of a static pod" => vec![annotated("kubernetes.io/config.mirror", "x")],
        "of a DaemonSet" => vec![of_daemon_set()],
        "of a `DaemonSet` of another API group" => {
            vec![owned_by(owner("acme.io/v1", "DaemonSet", "agent", "1"))]
        }
        "of a DaemonSet that does not exist" => vec![owned_by(owner("apps/v1", "DaemonSet", "gone", "1"))],
        "without a controller" => vec![json!({"metadata": {"ownerReferences": null}})],
        "with an owner that is not its controller" => {
            let mut other = owner("acme.io/v1", "Workload", "web", "1");
            other["controller"] = json!(false);
            vec![owned_by(other)]
        }
        "with an emptyDir volume" => vec![json!({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}})],
        "completed (Succeeded, Failed), also one of a DaemonSet" => {
            let mut succeeded = of_daemon_set();
            succeeded["status"] = json!({"phase": "Succeeded"});
            vec![succeeded, json!({"metadata": {"ownerReferences": null}, "status": {"phase": "Failed"}})]
        }
        "terminating since long after its grace period" => {
            vec![json!({"spec": {"terminationGracePeriodSeconds": 0}})]
        }
        _ if row.starts_with("released by the [replacement responder]") => {
            vec![annotated("surge.evacuation.dev/released", "{}")]
        }
        _ if row.starts_with("pinned to its node by a controller of another kind") => {
            let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
            let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
            let pin = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            let cordon = json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"});
            vec![json!({"spec": {"affinity": pin, "tolerations": [cordon]}})]
        }
        _ => panic!("no pods are known for the row {row:?}"),
    }
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true})
}

/// Creates a pod on a node, of a controller that does not exist, with fields of its own. No kubelet runs it.
async fn create(stage: &Stage, name: &str, node: &str, more: &Value) -> Pod {
    let owner = owner("acme.io/v1", "Workload", "web", "1");
    let mut pod = json!({
        "metadata": {
            "name": name, "finalizers": [HOLD], "ownerReferences": [owner],
            "annotations": {"controlplane.test/running-after": "1h", "controlplane.test/gone-after": "100ms"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app"}]},
    });
    for part in ["metadata", "spec"] {
        let fields = more[part].as_object().cloned().unwrap_or_default();
        pod[part].as_object_mut().unwrap().extend(fields);
    }
    let pod = stage.scene.raw_pod(&pod).await;
    if let Some(status) = more.get("status") {
        let patch = Patch::Merge(json!({"status": status}));
        stage.scene.pods.api().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    pod
}

/// Creates a DaemonSet that exists and does nothing, because it is being deleted: its controller leaves its
/// pods alone.
async fn idle_daemon_set(stage: &Stage) -> DaemonSet {
    let labels = json!({"app": "agent"});
    let spec = json!({"nodeSelector": {"pool": "none"}, "containers": [{"name": "app", "image": "app"}]});
    let set = json!({
        "metadata": {"name": "agent", "finalizers": [HOLD]},
        "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    let set = stage.scene.create::<DaemonSet>(set).await;
    stage.scene.api::<DaemonSet>().delete("agent", &DeleteParams::default()).await.unwrap();
    set
}

/// Lets everything go that a finalizer keeps.
async fn release(stage: &Stage) {
    let pods = stage.scene.pods.api().list(&ListParams::default()).await.unwrap();
    for pod in pods.iter().filter(|pod| !pod.finalizers().is_empty()) {
        stage.scene.finalizers(pod, &[]).await;
    }
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let sets = stage.scene.api::<DaemonSet>();
    sets.patch("agent", &PatchParams::default(), &patch).await.unwrap();
}

/// Returns what a dry run of kubectl drain does with a pod, in the words of the table.
fn act_on(pod: &str, output: &Output) -> &'static str {
    if output.stdout.contains(&format!("evicting pod {pod} (server dry run)")) {
        "evicted"
    } else if output.stderr.contains("cannot delete ") && output.stderr.contains(pod) {
        "an error"
    } else if output.success() {
        "left alone"
    } else {
        "unknown to the table"
    }
}

/// Returns what kubectl drain does with a pod that comes while it waits for another one.
async fn act_on_late_pod(stage: &Stage, node: &str) -> &'static str {
    let first = create(stage, "first", node, &json!({})).await;
    let pod_comes = async {
        let evicted = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        stage.scene.pod_until(&first, "kubectl drain evicts the first pod", evicted).await;
        let late = create(stage, "late", node, &json!({})).await;
        stage.scene.finalizers(&first, &[]).await;
        late
    };
    let command = ["drain", node];
    let (output, late) = tokio::join!(stage.scene.platform().kubectl(&command), pod_comes);
    let output = output.unwrap();
    assert_eq!(output.code, Some(0), "{output:?}");
    if !output.stdout.contains("/late") && stage.scene.stays(&late).await { "not seen" } else { "seen" }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_drain_does_with_each_pod_what_the_guide_says() {
    let rows = rows();
    let stage = Stage::new("kubectl-drain", rows.len()).await;
    let daemon_set = idle_daemon_set(&stage).await;
    for (number, ((row, cell), node)) in rows.into_iter().zip(&stage.nodes).enumerate() {
        if row == LATE {
            assert_eq!(act_on_late_pod(&stage, node).await, cell, "{row}");
            continue;
        }
        let mut keys = Vec::new();
        for (place, more) in pods(row, node, &daemon_set).iter().enumerate() {
            let pod = create(&stage, &format!("row-{number}-{place}"), node, more).await;
            if row.contains("terminating") {
                stage.scene.delete_pod(&pod).await;
            }
            keys.push(format!("{}/{}", stage.scene.namespace(), pod.name_any()));
        }
        for (act, argument) in acts(cell) {
            // A deletion takes its time to be older than a flag says.
            let done = eventually(PATIENCE, "kubectl drain does what the guide says", || async {
                let mut arguments = vec!["drain", node, "--dry-run=server"];
                arguments.extend(argument);
                let output = stage.scene.platform().kubectl(&arguments).await?;
                if keys.iter().all(|key| act_on(key, &output) == act) {
                    return Ok(());
                }
                bail!("{row}, {argument:?}: not {act}: {output:?}")
            });
            done.await.unwrap();
        }
    }
    release(&stage).await;
}
