//! Tenants that store as much as they can, in the form that takes the most memory of a reader.

use crate::{
    api::{LargeApi, ON_A_NODE},
    limit::peak,
    program::Program,
    worst::{self, MAX_BYTES, Objects},
};

/// The size of the largest objects of the kube-apiserver that are served beside the project's own: a page of
/// them, for each of their kinds.
const LARGEST: usize = 32 << 20;

/// Number of nodes whose drains end at once.
const NODES: usize = 16;
/// Number of nodes whose pods are read before the memory is measured. A controller that read all nodes at
/// once, or kept a node's pods whole, would have reached its peak.
const READS: usize = 4;
/// Number of objects in a page of a list.
const PAGE: usize = 20;

/// Serves the objects to a program, breaks its watches once it has them all, and compares its peak with the
/// memory limit of its Deployment.
async fn fits(program: Program, kinds: &str, lists: Vec<(&'static str, Objects)>) {
    let api = LargeApi::serve(lists).await;
    let running = program.start(api.port, &[]);
    api.is_read().await;
    let pid = running.process.pid().unwrap();
    let first = peak(pid);
    api.expire_watches();
    api.is_read().await;
    let (second, limit) = (peak(pid), program.memory_limit());
    println!(
        "{kinds}: {} MiB, {} MiB after a second list, of {} MiB",
        first >> 20,
        second >> 20,
        limit >> 20
    );
    assert!(second < limit, "{kinds}: {} MiB of {} MiB", second >> 20, limit >> 20);
    assert!(running.process.is_running(), "{}", running.process.log().unwrap());
}

/// The largest objects of Kubernetes' own kinds.
fn others() -> Vec<(&'static str, Objects)> {
    let mut lists: Vec<_> = ["replicasets", "statefulsets", "daemonsets", "replicationcontrollers"]
        .map(|name| (name, Objects::of_size(LARGEST, worst::owner)))
        .into();
    lists.push(("poddisruptionbudgets", Objects::of_size(LARGEST, worst::budget)));
    lists
}

/// The kinds of those that the controller watches.
const CONTROLLERS: [&str; 4] = ["evacuations", "pods", "poddisruptionbudgets", "replicasets"];

async fn controller(kinds: &str, evacuation: fn(usize) -> String, pod: fn(usize) -> String) {
    let mut lists = others();
    lists.push(("evacuations", Objects::of_size(MAX_BYTES, evacuation)));
    lists.push(("pods", Objects::of_size(LARGEST, pod)));
    lists.retain(|(name, _)| CONTROLLERS.contains(name));
    fits(Program::Controller, kinds, lists).await;
}

async fn gateway(
    kinds: &str,
    evacuation: fn(usize) -> String,
    responder: fn(usize) -> String,
    pod: fn(usize) -> String,
) {
    let mut lists = others();
    lists.push(("evacuations", Objects::of_size(MAX_BYTES, evacuation)));
    lists.push(("evacuationresponders", Objects::of_size(MAX_BYTES, responder)));
    lists.push(("pods", Objects::of_size(LARGEST, pod)));
    lists.retain(|(name, _)| *name != "poddisruptionbudgets");
    fits(Program::Gateway, kinds, lists).await;
}

/// # Attack
///
/// - Attacker: a tenant with the role `edit` in many namespaces
/// - Act: stores as many objects of the project's kinds as the limits allow, in the form that takes the
///   most memory of the controller, beside the largest pods, budgets and ReplicaSets
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_keeps_all_that_tenants_can_store_within_its_memory_limit() {
    controller("ended, and pods of containers", worst::ended, worst::pod_of_containers).await;
    controller("entries, and pods of variables", worst::entries, worst::pod_of_variables).await;
    controller("metadata, and pods of labels", worst::of_metadata, worst::pod_of_labels).await;
}

/// # Attack
///
/// - Attacker: a tenant whose pods run on nodes that are drained
/// - Act: makes the largest pods on as many nodes as end at once, in the forms that take the most memory of
///   the controller, which reads the pods of each node before it records the node's end
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn the_controller_reads_the_pods_of_the_nodes_that_end_within_its_memory_limit() {
    let forms = [
        ("containers", worst::pod_of_containers as fn(usize) -> String),
        ("variables", worst::pod_of_variables),
        ("labels", worst::pod_of_labels),
    ];
    for (kind, pod) in forms {
        let api = LargeApi::serve([
            ("nodes", Objects { count: NODES, object: worst::node }),
            ("nodeevacuations", Objects { count: 1, object: |_| worst::drain(NODES) }),
            (ON_A_NODE, Objects { count: PAGE, object: pod }),
        ])
        .await;
        let running = Program::Controller.start(api.port, &["--leader-elect=false"]);
        // The view does not have these pods, so no node ends, and all of them are read again and again.
        api.nodes_are_read(READS).await;
        let (peak, limit) = (peak(running.process.pid().unwrap()), Program::Controller.memory_limit());
        println!("nodes of pods of {kind}: {} MiB of {} MiB", peak >> 20, limit >> 20);
        assert!(peak < limit, "pods of {kind}: {} MiB of {} MiB", peak >> 20, limit >> 20);
        assert!(running.process.is_running(), "{}", running.process.log().unwrap());
    }
}

/// # Attack
///
/// - Attacker: a tenant with the role `edit` in many namespaces
/// - Act: stores as many objects of the project's kinds as the limits allow, in the form that takes the
///   most memory of the gateway, beside the largest pods and owners of pods
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_keeps_all_that_tenants_can_store_within_its_memory_limit() {
    let (values, labels) = (worst::responder, worst::responder_labels);
    gateway("ended, and pods of containers", worst::ended, values, worst::pod_of_containers).await;
    gateway("entries, and pods of variables", worst::entries, labels, worst::pod_of_variables).await;
    gateway("metadata, and pods of labels", worst::of_metadata, values, worst::pod_of_labels).await;
}
