//! Output on a terminal.

use std::process::Command;

use controlplane::output_of;
use evacuation_e2e::PodSpec;

use crate::{
    desk::{Desk, assert_has},
    drain::own_node,
};

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_a_bar_shows_how_far_the_drain_is() {
    // util-linux' script makes the terminal.
    let probe = Command::new("script").arg("--version").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no script(1) to make a terminal");
        return;
    }
    let desk = Desk::new("terminal").await;
    let node = own_node(&desk).await;
    desk.pods.create("web-0", &PodSpec::default().on(&node)).await.unwrap();
    let kubectl = desk.platform().kubectl_command();
    let mut command = Command::new("script");
    for (key, value) in kubectl.get_envs() {
        command.env(key, value.unwrap_or_default());
    }
    let inner =
        format!("{} evacuate node {node} --force --timeout 60s", kubectl.get_program().to_string_lossy());
    command.env("TERM", "xterm").args(["-qec", &inner, "/dev/null"]);
    let output = output_of("script", command).await.unwrap();
    assert_eq!(output.code, Some(0), "{output:?}");
    let screen = output.stdout;
    assert_has(
        &screen,
        &[
            "0/1 pods ended",
            "web-0: Evacuated",
            &format!("node/{node} evacuated"),
            // The bar redraws its lines in place.
            "\u{1b}[",
        ],
    );
}
