//! The page that says why a drain is stuck: the commands by which a reader looks, run by a reader.

use std::collections::BTreeSet;

use evacuation_api::DrainBlockerReason;
use evacuation_e2e::PodSpec;
use kube::ResourceExt;
use serde_json::json;

use crate::{person::Person, room::stuck, scene};

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
        let command = [
            ("-n shop", &*format!("-n {}", scene.namespace())),
            ("-n NAMESPACE", &*format!("-n {}", scene.namespace())),
            ("node-a", &*node),
            (" POD", " db-0"),
            (" NAME", &*format!(" {evacuation}")),
            ("SELECTOR", "app=db"),
        ]
        .iter()
        .fold(command, |command, (from, to)| command.replace(from, to));
        ann.runs_once_allowed(&command).await;
        run += 1;
    }
    assert!(run > 15, "{run} commands");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
