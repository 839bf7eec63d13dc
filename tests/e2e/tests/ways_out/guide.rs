//! The page that says why a drain is stuck: its commands, run by a reader.

use std::collections::BTreeSet;

use evacuation_api::{DrainBlockerReason, NodeEvacuation};
use evacuation_client::Answer;
use evacuation_e2e::{PodSpec, Scene, scene::Running};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::{
    person::Person,
    room::{held, stuck},
    scene,
};

const GUIDE: &str = include_str!("../../../../docs/guide/stuck.md");

/// Commands that need logs of kubelets or volumes, which this control plane lacks, or an administrator.
const LEFT_OUT: [&str; 5] = [
    "kubectl logs ",
    "kubectl get lease kube-controller-manager ",
    "kubectl get pv ",
    "kubectl get volumeattachments",
    "kubectl get validatingwebhookconfigurations",
];

/// Returns the kubectl commands of a page, in code blocks and in sentences.
fn commands(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut sentences = String::new();
    for (place, part) in page.split("```").enumerate() {
        if place % 2 == 0 {
            sentences.push_str(part);
            continue;
        }
        let typed = part.lines().filter_map(|line| line.strip_prefix("$ "));
        found.extend(typed.map(|line| line.split("  #").next().unwrap().trim().to_owned()));
    }
    let sentences = sentences.replace('\n', " ");
    found.extend(sentences.split('`').skip(1).step_by(2).map(str::to_owned));
    found.retain(|command| command.starts_with("kubectl "));
    found
}

/// Returns true for a command that changes nothing.
fn looks(command: &str) -> bool {
    let verbs = ["get ", "describe ", "logs ", "evacuate status", "evacuate why"];
    verbs.iter().any(|verb| command["kubectl ".len()..].starts_with(verb))
}

/// Returns true for a command that changes an object of the page.
fn changes(command: &str) -> bool {
    !looks(command) && (command.contains(" -n shop") || command.contains(" node-a"))
}

/// Returns the command for the objects of a scene in place of those of the page.
fn in_scene(command: &str, scene: &Scene, node: &str) -> String {
    let namespace = format!("-n {}", scene.namespace());
    let names = [("-n shop", namespace.as_str()), ("-n NAMESPACE", &namespace), ("node-a", node)];
    names.iter().fold(command.to_owned(), |command, (from, to)| command.replace(from, to))
}

#[test]
fn commands_are_found_in_blocks_and_in_sentences_over_two_lines() {
    let page = "a `b` c\n```console\n$ kubectl get pods      # all\nno command\n```\n`kubectl patch\nnode x -p '{}'`.";
    let expected = ["kubectl get pods", "kubectl patch node x -p '{}'"];
    assert_eq!(commands(page), expected.map(str::to_owned).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_by_which_the_page_of_stuck_drains_looks_works_for_who_drains_and_views() {
    let scene = scene("guide").await;
    let node = scene.own_node().await;
    scene.pod("db-0", PodSpec::default().label("app", "db").on(&node)).await;
    scene.floor("db", ("app", "db"), 1).await;
    scene.pod("db-2", PodSpec::default().on("node-1")).await;
    let ann = Person::drainer(&scene, "ann").await;
    ann.bind_in_cluster("view").await;
    let right = json!({"group": "policy", "resource": "poddisruptionbudgets", "verb": "get"});
    scene.decided(&ann.name, &right, true).await;
    // The page gives the drain the name of its node.
    ann.runs(&format!("kubectl evacuate node {node} --force --detach --name={node}")).await;
    stuck(&scene, &node, DrainBlockerReason::BudgetAllowsNone, 1).await;
    let evacuation = scene.evacuation_of("db-0").await.name_any();
    let mut run = 0;
    for command in commands(GUIDE) {
        if !looks(&command) || LEFT_OUT.iter().any(|left| command.starts_with(left)) {
            continue;
        }
        let command = [(" POD", " db-0"), (" NAME", &*format!(" {evacuation}")), ("SELECTOR", "app=db")]
            .iter()
            .fold(in_scene(&command, &scene, &node), |command, (from, to)| command.replace(from, to));
        ann.runs_once_allowed(&command).await;
        run += 1;
    }
    assert!(run > 15, "{run} commands");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

/// The drain of a node that two budgets of its pod `db-0` hold up, or for an override the refusal of its app.
async fn hold_up(scene: &Scene, ann: &Person<'_>, node: &str, command: &str) -> Option<Running> {
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    if drains.get_opt(node).await.unwrap().is_some() {
        ann.runs(&format!("kubectl evacuate cancel {node}")).await;
    }
    ann.tries(&format!("kubectl taint node {node} node.kubernetes.io/out-of-service:NoExecute-")).await;
    if let Some(pod) = scene.pods.api().get_opt("db-0").await.unwrap() {
        let at_once = DeleteParams::default().grace_period(0);
        scene.pods.api().delete("db-0", &at_once).await.unwrap();
        scene.pods.gone(&pod).await.unwrap();
    }
    let budgets = scene.api::<PodDisruptionBudget>();
    for name in ["db", "b"] {
        if budgets.get_opt(name).await.unwrap().is_some() {
            budgets.delete(name, &DeleteParams::default()).await.unwrap();
        }
    }
    let drain = format!("kubectl evacuate node {node} --force --detach --on-refusal=wait --name={node}");
    if command.starts_with("kubectl evacuate override ") {
        let pod = scene.pod("db-0", PodSpec::watching().on(node)).await;
        let app = scene.app(&pod, async |_| Answer::refuse("a backup runs")).await;
        ann.runs(&drain).await;
        held(scene, node, DrainBlockerReason::Refused).await;
        return Some(app);
    }
    scene.pod("db-0", PodSpec::default().label("app", "db").on(node)).await;
    for name in ["db", "b"] {
        scene.floor(name, ("app", "db"), 1).await;
    }
    ann.runs(&drain).await;
    stuck(scene, node, DrainBlockerReason::MultipleBudgets, 1).await;
    if command.starts_with("kubectl evacuate set pod/") {
        ann.runs(&format!("kubectl create evacuation db-0 -n {}", scene.namespace())).await;
    }
    if command.ends_with(":NoExecute-") {
        ann.runs(&command.replace(":NoExecute-", "=nodeshutdown:NoExecute")).await;
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_by_which_the_page_of_stuck_drains_helps_works_for_who_drains_and_edits() {
    let scene = scene("help").await;
    let node = scene.own_node().await;
    let ann = Person::drainer(&scene, "ann").await;
    ann.bind_in_cluster("evacuation:pod-deleter").await;
    let right = json!({"group": "policy", "resource": "poddisruptionbudgets", "verb": "delete"});
    ann.bind("edit", &right).await;
    let mut run = 0;
    for command in commands(GUIDE).into_iter().filter(|command| changes(command)) {
        let command = in_scene(&command, &scene, &node);
        let _app = hold_up(&scene, &ann, &node, &command).await;
        ann.runs_once_allowed(&command).await;
        run += 1;
    }
    assert!(run > 20, "{run} commands");
    ann.tries(&format!("kubectl evacuate cancel {node}")).await;
    ann.runs(&format!("kubectl uncordon {node}")).await;
}
