//! Nodes of every length of name that Kubernetes allows, drained from the command line.

use std::time::Duration;

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{CORDONED_BY_ANNOTATION, DUE_TAINT, NodeEvacuation};
use evacuation_client::{Answer, End};
use evacuation_e2e::PodSpec;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;

use crate::{
    desk::{Desk, assert_has},
    drain::{cordoned, evacuate},
    drain_course::drains_of,
    watch::PATIENCE,
};

/// Lengths at which names derived from a node's are cut, and the longest legal one.
const LENGTHS: [usize; 3] = [58, 63, 253];

/// A node of this test's own with a name of that length. Nothing else runs there.
async fn long_node(desk: &Desk, length: usize) -> String {
    let name = format!("n{length}-{}{}", desk.namespace(), ".abcdefghi".repeat(25));
    let name = format!("{}z", &name[..length - 1]);
    desk.control_plane().add_node(&name, &[("for", desk.namespace())]).await.unwrap();
    name
}

/// Waits until a node is as wanted.
async fn node_until(desk: &Desk, name: &str, what: &str, wanted: impl Fn(&Node) -> bool) -> Node {
    let nodes: Api<Node> = Api::all(desk.admin());
    let found = eventually(PATIENCE, what, || async {
        let node = nodes.get(name).await?;
        if wanted(&node) { Ok(node) } else { bail!("{}", serde_json::to_string(&node)?) }
    });
    found.await.unwrap()
}

fn has_condition(node: &Node, kind: &str, status: &str) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == status)
}

fn is_due(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == DUE_TAINT)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_name_of_any_legal_length_is_drained_and_marked_and_put_back() {
    let desk = Desk::new("longnodes").await;
    for length in LENGTHS {
        let node = long_node(&desk, length).await;
        let pod = desk.pod(&format!("db-{length}"), PodSpec::watching().on(&node)).await;
        let _app = desk.answers(&pod, Answer::accept()).await;
        let output = evacuate(&desk, &node, &["--force", "--timeout=60s"]).await;
        assert_eq!(output.code, Some(0), "{length}: {output:?}");
        assert_has(&output.stdout, &["cordoned", &format!("node/{node} evacuated")]);
        desk.pods.gone(&pod).await.unwrap();
        let drain = drains_of(&desk, &node).await.remove(0);
        let drained = |node: &Node| has_condition(node, "Drained", "True");
        let marked = node_until(&desk, &node, "it is marked as drained", drained).await;
        assert_eq!(marked.annotations().get(CORDONED_BY_ANNOTATION), Some(&drain), "{length}");
        assert!(cordoned(&desk, &node).await, "{length}");

        let said = desk.cancel(&node).await;
        assert_has(&said, &[&format!("node/{node} uncordoned")]);
        assert!(!cordoned(&desk, &node).await, "{length}");
        let clean = |node: &Node| {
            has_condition(node, "Drained", "False")
                && !node.annotations().contains_key(CORDONED_BY_ANNOTATION)
        };
        node_until(&desk, &node, "its marks are gone", clean).await;
        assert_eq!(drains_of(&desk, &node).await, [] as [&str; 0], "no finalizer keeps the drain");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_puts_a_node_with_a_name_of_any_legal_length_back() {
    let desk = Desk::new("longback").await;
    for length in LENGTHS {
        let (node, name) = (long_node(&desk, length).await, format!("db-{length}"));
        let pod = desk.pod(&name, PodSpec::watching().on(&node)).await;
        let _app = desk.answers(&pod, Answer::delay(Duration::from_mins(10))).await;
        let output = evacuate(&desk, &node, &["--force", "--detach"]).await;
        assert_eq!(output.code, Some(0), "{length}: {output:?}");
        desk.answered(&desk.evacuation_of(&name).await, evacuation_api::Answer::Delay).await;
        assert!(cordoned(&desk, &node).await, "{length}");
        let drain = drains_of(&desk, &node).await.remove(0);

        let said = desk.cancel(&node).await;
        let expected =
            format!("nodeevacuation {drain} canceled: 1 request taken back, node/{node} uncordoned");
        assert_eq!(said.trim(), expected);
        assert!(!cordoned(&desk, &node).await, "{length}");
        assert!(matches!(End::of(&desk.evacuation_of(&name).await), Some(End::Failed { .. })), "{length}");
        assert!(desk.stays(&pod).await, "{length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_the_longest_legal_name_is_tainted_while_its_drain_is_to_come() {
    let desk = Desk::new("longdue").await;
    let node = long_node(&desk, 253).await;
    let drain = json!({
        "metadata": {"name": format!("paused-{}", desk.namespace())},
        "spec": {"nodes": {"names": [node]}, "paused": true},
    });
    let drains: Api<NodeEvacuation> = Api::all(desk.admin());
    drains.create(&PostParams::default(), &serde_json::from_value(drain).unwrap()).await.unwrap();
    let planned = |node: &Node| is_due(node) && has_condition(node, "MaintenancePlanned", "True");
    node_until(&desk, &node, "it is due", planned).await;
    desk.cancel(&node).await;
    node_until(&desk, &node, "it is no longer due", |node| !is_due(node)).await;
}
