//! A command that follows a drain while a part of the system goes down under it and comes back.

use controlplane::{Process, Signal};
use evacuation_e2e::{PodSpec, Scene, scene::PATIENCE};
use serde_json::json;

use crate::scene;

/// Starts a plugin that runs beside the test.
pub(crate) fn follows(scene: &Scene, arguments: &[&str]) -> Process {
    let mut command = scene.platform().kubectl_command();
    command.arg("evacuate").args(arguments);
    let logs = scene.platform().control_plane().logs();
    Process::spawn(format!("{}-{}", arguments[0], scene.namespace()), command, &logs).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_a_drain_reads_of_each_outage_once_of_its_end_and_of_no_progress_meanwhile() {
    let scene = scene("under").await;
    let node = scene.own_node().await;
    // Its app never answers.
    scene.pod("app", PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 3600}])).on(&node)).await;
    let maker = follows(&scene, &["node", &node, "--force"]);
    maker.wait_for_log(PATIENCE, "app: Asking").await.unwrap();
    let viewer = follows(&scene, &["status", &node, "--watch"]);
    viewer.wait_for_log(PATIENCE, &node).await.unwrap();
    let both = [&maker, &viewer];

    let server = scene.platform().apiserver();
    server.kill().unwrap();
    for command in both {
        command.wait_for_log(PATIENCE, "warning: the evacuation API does not answer").await.unwrap();
    }
    server.start().unwrap();
    for command in both {
        command.wait_for_log(PATIENCE, "the evacuation API answers again after ").await.unwrap();
    }

    scene.kill_controller();
    for command in both {
        command.wait_for_log(PATIENCE, "Warning: no controller works on evacuations").await.unwrap();
    }
    maker.signal(Signal::Interrupt).unwrap();
    assert_eq!(maker.wait(PATIENCE).await.unwrap().code(), Some(130));
    scene.start_controller().await;
    let cancel = scene.platform().kubectl(&["evacuate", "cancel", &node]).await.unwrap();
    assert_eq!(cancel.code, Some(0), "{cancel:?}");
    assert_eq!(viewer.wait(PATIENCE).await.unwrap().code(), Some(0));

    for command in both {
        let log = command.log().unwrap();
        for once in [
            "warning: the evacuation API does not answer",
            "the evacuation API answers again",
            "Warning: no controller works on evacuations",
        ] {
            assert_eq!(log.matches(once).count(), 1, "{once}: {log}");
        }
    }
    let log = maker.log().unwrap();
    assert!(log.contains("waits for a controller") && !log.contains("continues"), "{log}");
}
