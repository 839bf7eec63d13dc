//! The guide's page about the wire protocol: its commands, in their order.

use std::process::Command;

use controlplane::output_of;
use evacuation_api::{Answer, ResponderState};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{responder_named, status},
};
use kube::ResourceExt;
use serde_json::json;

use crate::mounted::Mounted;

/// The guide's page.
const PAGE: &str = include_str!("../../../../docs/guide/wire.md");

/// Returns the commands under the headings between two of them.
fn commands(from: &str, to: &str) -> String {
    let start = PAGE.find(from).expect("the heading is there");
    let end = PAGE.find(to).expect("the heading is there");
    let blocks = PAGE[start..end].split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

/// Runs a script as in a pod, and returns its output.
async fn shell(scene: &Scene, pod: &k8s_openapi::api::core::v1::Pod, script: &str) -> String {
    let mounted = Mounted::new(scene, pod);
    mounted.renew_token(scene, pod).await;
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).envs(mounted.environment(scene));
    let output = output_of("the commands of the page", shell).await.unwrap();
    assert!(output.success(), "{output:?}");
    output.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_wire_protocol_answer_for_a_pod_and_for_an_operator() {
    let scene = Scene::new("wire").await;
    let responders = json!([{"name": "db.acme.io/failover", "priority": 20000}, {"name": "self"}]);
    let pod = scene.pod("db-0", PodSpec::registered(&responders)).await;
    for (group, resource, verb, name) in [
        ("evacuation.dev", "evacuations", "list", None),
        ("evacuation.dev", "evacuations/respond", "create", None),
        ("evacuation.dev", "responders", "respond", Some("db.acme.io/failover")),
    ] {
        let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
        rule["resourceNames"] = json!(name.into_iter().collect::<Vec<_>>());
        let account = format!("system:serviceaccount:{}:default", scene.namespace());
        scene.grant(&account, rule).await;
    }
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let requests = commands("## The requests", "## Answer for your own pod");
    let operator = commands("## Answer for the pods of others", "## Errors");
    shell(&scene, &pod, &(requests.clone() + &operator)).await;
    let seen = scene
        .until(&evacuation, "it is the pod's turn", |e| {
            responder_named(e, "self").state == ResponderState::Active
        })
        .await;
    let said = responder_named(&seen, "db.acme.io/failover").message.clone();
    assert_eq!(said.as_deref(), Some("db-1 is the primary"));

    let own = commands("## Answer for your own pod", "## Answer for the pods of others");
    let errors = commands("## Errors", "## After a break");
    let printed = shell(&scene, &pod, &(requests + &own + &errors)).await;
    assert!(printed.contains(&evacuation.name_any()), "{printed}");
    assert!(printed.contains("\"grantedSeconds\": 30"), "{printed}");
    assert!(printed.contains("\"code\": 4") && printed.contains("answer"), "{printed}");
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(responder_named(&ended, "self").answer, Some(Answer::Accept));
    assert!(status(&ended).responders.is_some());
}
