//! The side-car and the end of its pod: preStop hooks, probes, SIGTERM.

use evacuation_e2e::{App, PodSpec, Scene};
use std::{path::Path, process::Command, time::Duration};

use controlplane::{Output, Signal, free_port, output_of};

use crate::side_car::{Script, WAITS};

use crate::question::ask;

/// Runs the preStop hook of the app's container.
async fn pre_stop(scene: &Scene, socket: &Path, more: &[&str]) -> Output {
    let mut hook = Command::new(scene.platform().programs().binary("evacuation-agent"));
    hook.args(["pre-stop", "--timeout", "30s", "--socket"]).arg(socket).args(more);
    output_of("the hook", hook).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_stop_hook_needs_no_second_run_of_work_that_was_accepted() {
    let scene = Scene::new("side-car-hook").await;
    let script = Script::new();
    let work = script.file("work", WAITS);
    let socket = script.path("agent.sock");
    let pod = scene.pod("app", PodSpec::watching().label("app", "held")).await;
    let arguments = ["--socket", socket.to_str().unwrap(), "--exec", "sh", &work];
    let _agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    let evacuation = ask(&scene, &pod, "Wait").await;
    script.logged("Ask\n").await;
    // A budget holds the eviction back, so that the app still runs after its answer.
    scene.pods.budget("held", ("app", "held"), 0).await.unwrap();
    // A hook that comes while the work goes on waits for it.
    let opener = async {
        script.open_gate();
        scene.until_responder(&evacuation, "the answer", |r| r.message.as_deref() == Some("flushed")).await
    };
    let (hook, _) = tokio::join!(pre_stop(&scene, &socket, &[]), opener);
    assert!(hook.success(), "{hook:?}");
    let hook = pre_stop(&scene, &socket, &[]).await;
    assert!(hook.success(), "{hook:?}");
    assert_eq!(script.log(), "Ask\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_without_being_asked_does_its_work_in_the_hook() {
    let scene = Scene::new("side-car-deleted").await;
    let script = Script::new();
    script.open_gate();
    let work = script.file("work", WAITS);
    let socket = script.path("agent.sock");
    let pod = scene.pod("app", PodSpec::watching()).await;
    let arguments = ["--socket", socket.to_str().unwrap(), "--exec", "sh", &work];
    let agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    let hook = pre_stop(&scene, &socket, &[]).await;
    assert!(hook.success(), "{hook:?}");
    assert_eq!(script.log(), "PreStop\n");
    // Without an agent the hook does it itself, if it knows how.
    drop(agent);
    let hook = pre_stop(&scene, &socket, &["--exec", "sh", &work]).await;
    assert!(hook.success(), "{hook:?}");
    assert_eq!(script.log(), "PreStop\nPreStop\n");
    let hook = pre_stop(&scene, &socket, &[]).await;
    assert!(!hook.success(), "{hook:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_the_agent_and_the_command_and_probes_are_answered_until_then() {
    let scene = Scene::new("side-car-term").await;
    let script = Script::new();
    let work = script.file("work", WAITS);
    let pod = scene.pod("app", PodSpec::watching()).await;
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let arguments = ["--health-address", &address, "--exec", "sh", &work];
    let agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    for path in ["livez", "readyz"] {
        let reply = reqwest::get(format!("http://{address}/{path}")).await.unwrap();
        assert_eq!(reply.status(), 200, "{path}");
    }
    ask(&scene, &pod, "Wait").await;
    script.logged("Ask\n").await;
    agent.process().signal(Signal::Terminate).unwrap();
    let status = agent.process().wait(Duration::from_mins(1)).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(script.log(), "Ask\nstopped\n");
    assert!(reqwest::get(format!("http://{address}/livez")).await.is_err());
}
