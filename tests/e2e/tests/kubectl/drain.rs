//! `kubectl evacuate node`: which pods it takes, and what it leaves alone.

use controlplane::eventually;
use evacuation_e2e::PodSpec;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

use crate::desk::{Desk, assert_has};

/// A node of this test's own. Nothing else runs there.
pub(crate) async fn own_node(desk: &Desk) -> String {
    let name = format!("node-of-{}", desk.pods.namespace());
    let control_plane = desk.control_plane();
    control_plane.add_node(&name, &[("for", desk.pods.namespace())]).await.unwrap();
    name
}

/// Returns whether a node is cordoned.
pub(crate) async fn cordoned(desk: &Desk, node: &str) -> bool {
    let nodes: Api<Node> = Api::all(desk.admin());
    let node = nodes.get(node).await.unwrap();
    node.spec.and_then(|spec| spec.unschedulable) == Some(true)
}

/// Runs `kubectl evacuate node` with no namespace.
pub(crate) async fn evacuate(desk: &Desk, node: &str, arguments: &[&str]) -> controlplane::Output {
    let mut all = vec!["evacuate", "node", node];
    all.extend(arguments);
    desk.platform().kubectl(&all).await.unwrap()
}

/// A Deployment's ready pods, once it has that many.
async fn ready_pods(desk: &Desk, app: &str, count: usize) -> Vec<Pod> {
    let api = desk.pods.api();
    let params = ListParams::default().labels(&format!("app={app}"));
    let ready = eventually(crate::watch::PATIENCE, "the pods are ready", || async {
        let mut pods = api.list(&params).await.unwrap().items;
        pods.retain(|pod| ready_since(pod).is_some() && pod.metadata.deletion_timestamp.is_none());
        if pods.len() == count { Ok(pods) } else { Err(pods.len()) }
    });
    ready.await.unwrap()
}

/// Since when a pod is ready, in seconds.
fn ready_since(pod: &Pod) -> Option<i64> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0.as_second())
}

/// A workload's template: pods on the nodes of this test.
fn template(desk: &Desk, app: &str) -> serde_json::Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "nodeSelector": {"for": desk.pods.namespace()}, "tolerations": controlplane::tolerations(),
            "containers": [{"name": "app", "image": "app"}],
        },
    })
}

/// Waits until the plan of a node tells people and programs that its three pods go one after the other.
async fn plan_tells_of_rounds(desk: &Desk, node: &str) {
    let told = format!(
        "plan: 3 asked, 0 deleted, 0 held back now; budget {}/web allows 1 at a time, so its 3 pods go in 3 \
         rounds",
        desk.namespace()
    );
    let plan = eventually(crate::watch::PATIENCE, "the plan tells of the rounds", || async {
        let output = evacuate(desk, node, &["--plan"]).await;
        if output.stdout.lines().any(|line| line == told) { Ok(output) } else { Err(format!("{output:?}")) }
    });
    assert_eq!(plan.await.unwrap().code, Some(0));
    let plan = evacuate(desk, node, &["--plan", "-o", "json"]).await;
    assert_eq!(plan.code, Some(0), "{plan:?}");
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!((&plan["message"], &plan["begins"]), (&json!(told), &json!(true)), "{plan}");
    assert_eq!(plan["heldBackNow"], json!([]), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pods_of_a_node_move_and_their_budget_is_kept() {
    let desk = Desk::new("drain").await;
    let node = own_node(&desk).await;
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(&desk, "web"),
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    Api::<Deployment>::namespaced(desk.admin(), desk.pods.namespace())
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    let old = ready_pods(&desk, "web", 3).await;
    desk.pods.budget("web", ("app", "web"), 1).await.unwrap();
    // Where they can go.
    let other = format!("other-{node}");
    let control_plane = desk.control_plane();
    control_plane.add_node(&other, &[("for", desk.pods.namespace())]).await.unwrap();

    plan_tells_of_rounds(&desk, &node).await;
    assert_eq!(desk.count().await, 0, "a plan asks no pod");
    let output = evacuate(&desk, &node, &["--reason=NodeMaintenance", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(
        &output.stdout,
        &["cordoned", "to be evicted (no responder)", "Evacuated", &format!("node/{node} evacuated")],
    );
    assert!(cordoned(&desk, &node).await);

    let new = ready_pods(&desk, "web", 3).await;
    assert!(new.iter().all(|pod| old.iter().all(|old| old.uid() != pod.uid())));
    let mut evicted: Vec<_> = control_plane
        .audit_events()
        .unwrap()
        .into_iter()
        .filter(|event| event.namespace() == desk.pods.namespace() && event.subresource() == "eviction")
        .filter(|event| event.stage() == "ResponseComplete" && event.code() == 201)
        .map(|event| event.answered().unwrap().as_second())
        .collect();
    evicted.sort_unstable();
    assert_eq!(evicted.len(), 3, "one eviction a pod");
    let mut ready: Vec<_> = new.iter().filter_map(ready_since).collect();
    ready.sort_unstable();
    for (next_eviction, replacement) in evicted[1..].iter().zip(&ready) {
        assert!(next_eviction >= replacement, "evictions at {evicted:?}, replacements ready at {ready:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmanaged_pod_stops_the_drain_before_anything_is_cordoned() {
    let desk = Desk::new("unmanaged").await;
    let node = own_node(&desk).await;
    desk.pods.create("lonely", &PodSpec::default().on(&node)).await.unwrap();
    let output = evacuate(&desk, &node, &[]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &[&format!("{}/lonely", desk.pods.namespace()), "no controller", "--force"]);
    assert!(!cordoned(&desk, &node).await);
    assert_eq!(desk.count().await, 0);

    let output = evacuate(&desk, &node, &["--force", "--reason=no reason"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &["spec.requester.reason", "no reason"]);
    assert!(!cordoned(&desk, &node).await, "a request that is no good cordons nothing");

    let output = evacuate(&desk, &node, &["--force", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stderr, &["warning: ", "lonely"]);
    let gone = desk.pods.api().get_opt("lonely").await.unwrap();
    assert!(gone.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_refused_pod_is_left_out_and_the_others_are_drained() {
    let desk = Desk::new("leftout").await;
    let refused = own_node(&desk).await;
    desk.pods.create("lonely", &PodSpec::default().on(&refused)).await.unwrap();
    let other = format!("other-{refused}");
    desk.control_plane().add_node(&other, &[("for", desk.pods.namespace())]).await.unwrap();
    let selector = format!("for={}", desk.pods.namespace());
    let flags = ["evacuate", "node", "-l", &selector, "--timeout=60s"];
    let output = desk.platform().kubectl(&flags).await.unwrap();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &["lonely", "--force", &format!("error: left out: {refused}")]);
    assert_has(&output.stdout, &[&format!("node/{other} evacuated")]);
    assert!(!cordoned(&desk, &refused).await && cordoned(&desk, &other).await);
    assert!(desk.pods.api().get_opt("lonely").await.unwrap().is_some());
    desk.cancel(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_daemon_sets_are_left_alone_only_with_the_flag_and_share_a_warning() {
    let desk = Desk::new("daemon").await;
    let node = own_node(&desk).await;
    let mut left = Vec::new();
    for app in ["agent", "logs"] {
        let set = json!({
            "metadata": {"name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}, "template": template(&desk, app)},
        });
        desk.create::<DaemonSet>(set).await;
        left.push(ready_pods(&desk, app, 1).await.remove(0));
    }
    let names = [left[0].name_any(), left[1].name_any()];
    let output = evacuate(&desk, &node, &[]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &[&names[0], &names[1], "DaemonSet"]);
    assert!(!cordoned(&desk, &node).await);

    desk.pods.create("lonely", &PodSpec::default().on(&node)).await.unwrap();
    let output = evacuate(&desk, &node, &["--ignore-daemonsets", "--force", "--timeout=60s"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    let told: Vec<&str> = output.stderr.lines().filter(|line| line.contains("left alone")).collect();
    let [warning] = told.as_slice() else { panic!("{output:?}") };
    let both = "warning: 2 pods are left alone (it belongs to a DaemonSet): ";
    assert_has(warning, &[both, &names[0], &names[1]]);
    for pod in &left {
        assert!(desk.stays(pod).await, "{}", pod.name_any());
    }
    assert_eq!(desk.count().await, 1, "only of the other pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_names_the_pods_and_changes_nothing() {
    let desk = Desk::new("draindry").await;
    let node = own_node(&desk).await;
    desk.pods.create("lonely", &PodSpec::default().on(&node)).await.unwrap();
    for (flag, note) in [
        ("--dry-run", "(dry run)"),
        ("--dry-run=client", "(dry run)"),
        ("--dry-run=server", "(server dry run)"),
    ] {
        let output = evacuate(&desk, &node, &["--force", flag]).await;
        assert_eq!(output.code, Some(0), "{output:?}");
        let pod = format!("pod/{}/lonely asked {note}", desk.pods.namespace());
        assert_has(&output.stdout, &[&format!("node/{node} cordoned {note}"), &pod]);
    }
    assert!(!cordoned(&desk, &node).await);
    assert_eq!(desk.count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_node_is_done_and_an_unknown_one_is_an_error() {
    let desk = Desk::new("empty").await;
    let node = own_node(&desk).await;
    let output = evacuate(&desk, &node, &[]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stdout, &["cordoned", "evacuated"]);
    let output = evacuate(&desk, &node, &[]).await;
    assert_has(&output.stdout, &["already cordoned"]);
    let output = evacuate(&desk, "no-such-node", &[]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_has(&output.stderr, &["no-such-node"]);
}
