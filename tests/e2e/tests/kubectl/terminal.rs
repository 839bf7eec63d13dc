//! Output on a terminal.

use std::process::Command;

use controlplane::{Output, Process, eventually, output_of};
use evacuation_api::NodeEvacuation;
use evacuation_client::Answer;
use evacuation_e2e::PodSpec;
use kube::Api;
use serde_json::json;

use crate::{
    desk::{Desk, assert_has},
    drain::own_node,
    watch::PATIENCE,
};

fn on_terminal(desk: &Desk, arguments: &str) -> Command {
    desk.platform().kubectl_on_terminal("exec", arguments)
}

async fn run(command: Command) -> Output {
    output_of("script", command).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_a_bar_shows_how_far_the_drain_is() {
    let desk = Desk::new("terminal").await;
    let node = own_node(&desk).await;
    desk.pods.create("web-0", &PodSpec::default().on(&node)).await.unwrap();
    let command = on_terminal(&desk, &format!("evacuate node {node} --force --timeout 60s"));
    let output = run(command).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(
        &output.stdout,
        &[
            "1/1",
            &format!("node/{node} evacuated"),
            "1 gone",
            "Drained",
            // The bars redraw their lines in place.
            "\u{1b}[2K",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_status_draws_the_answers_and_the_blockers_until_the_drain_ends() {
    let desk = Desk::new("livestatus").await;
    let node = own_node(&desk).await;
    let (delays, refuses) = (("worker-0", Answer::delay(PATIENCE).message("3 jobs left")), "backup-0");
    let worker = desk.pods.create(delays.0, &PodSpec::watching().on(&node)).await.unwrap();
    let backup = desk.pods.create(refuses, &PodSpec::watching().on(&node)).await.unwrap();
    let _worker = desk.answers(&worker, delays.1).await;
    let _backup = desk.answers(&backup, Answer::refuse("a backup runs")).await;
    let name = format!("live-{node}");
    let arguments = ["evacuate", "node", &node, "--name", &name, "--force", "--on-refusal=wait", "--detach"];
    let created = desk.platform().kubectl(&arguments).await.unwrap();
    assert_eq!(created.code, Some(0), "{created:?}");

    let command = on_terminal(&desk, &format!("evacuate status {name}"));
    let logs = desk.platform().control_plane().logs();
    let live = Process::spawn(format!("live-{node}"), command, &logs).unwrap();
    for part in ["3 jobs left", "a backup runs", "held back by", "what helps: ", "0/2", "Stuck"] {
        live.wait_for_log(PATIENCE, part).await.unwrap();
    }
    // Without a terminal the second run says at once where each pod stands.
    let again = desk.start_in_cluster(&["evacuate", "node", &node, "--name", &name, "--force"]);
    again.wait_for_log(PATIENCE, "so far: 0 gone, 1 delayed, 1 refused").await.unwrap();
    again.wait_for_log(PATIENCE, "worker-0: Delayed (Delay: 3 jobs left), until ").await.unwrap();
    again.wait_for_log(PATIENCE, "backup-0: Refused (Refuse: a backup runs)").await.unwrap();
    desk.cancel(&name).await;
    assert_eq!(live.wait(PATIENCE).await.unwrap().code(), Some(0));
    assert_has(&live.log().unwrap(), &[&format!("nodeevacuation {name} is gone")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_an_uncordon_is_told_once_and_the_bar_has_the_pods_that_are_gone() {
    let desk = Desk::new("livereturn").await;
    let node = own_node(&desk).await;
    let silent = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 3600}]));
    desk.pods.create("db-0", &silent.on(&node)).await.unwrap();
    desk.pods.create("web-0", &PodSpec::default().on(&node)).await.unwrap();
    let name = format!("return-{node}");
    let draining = desk.start_in_cluster(&["evacuate", "node", &node, "--name", &name, "--force"]);
    draining.wait_for_log(PATIENCE, "db-0: Asking").await.unwrap();
    let drains: Api<NodeEvacuation> = Api::all(desk.admin());
    let gone = eventually(PATIENCE, "the pod without an app is gone", || async {
        let pods = drains.get(&name).await.unwrap().status.unwrap_or_default().pods;
        if (pods.gone, pods.total) == (1, 2) { Ok(()) } else { Err(format!("{pods:?}")) }
    });
    gone.await.unwrap();
    desk.cordon(&node, false).await;
    let ended = draining.wait(PATIENCE).await.unwrap();
    assert_eq!(ended.code(), Some(2), "{}", draining.log().unwrap());

    // Of a drain that has ended nothing is drawn before the page.
    let page = run(on_terminal(&desk, &format!("evacuate status {name}"))).await;
    assert_eq!(page.code, Some(0), "{page:?}");
    assert_eq!(page.stdout.matches("uncordoned").count(), 1, "{page:?}");
    // The other pod is no longer to move.
    let bar = format!("[{}] 1/1", "#".repeat(20));
    assert_has(&page.stdout, &["Failed, 1/1 gone", "1 of 1 gone", &bar]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_waiting_for_evacuations_shows_their_answers() {
    let desk = Desk::new("livewait").await;
    let pod = desk.silent_pod("db-0").await;
    let delay = Answer::delay(std::time::Duration::from_secs(10)).message("3 jobs left");
    let _app = desk.answers(&pod, delay).await;
    let arguments = format!("create evacuation db-0 -n {} --wait --timeout 60s", desk.namespace());
    let command = on_terminal(&desk, &arguments);
    let output = run(command).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_has(&output.stdout, &["0/1 pod ended", "\"3 jobs left\"", "db-0: Evacuated", "1/1 pod ended"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_an_interrupt_leaves_the_drawing_and_says_how_to_return_and_to_undo() {
    let desk = Desk::new("liveinterrupt").await;
    let node = own_node(&desk).await;
    desk.pods.create("db-0", &PodSpec::watching().on(&node)).await.unwrap();
    let name = format!("stop-{node}");
    let arguments = format!("evacuate node {node} --name {name} --force");
    let interrupted = "timeout --foreground --signal INT 12";
    let command = desk.platform().kubectl_on_terminal(interrupted, &arguments);
    let output = run(command).await;
    let end = output.stdout.rsplit("\u{1b}[2K").next().unwrap_or_default();
    assert_has(
        end,
        &[
            "db-0",
            "Asking",
            &format!("interrupted: nodeevacuation {name} continues: 0 gone, 1 asked"),
            &format!("to see it: kubectl evacuate status {name}"),
            &format!("to undo it: kubectl evacuate cancel {name}"),
        ],
    );
}
