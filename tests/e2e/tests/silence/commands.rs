//! The command line while a part of the system is down.

use std::time::{Duration, Instant};

use controlplane::{Output, Signal, eventually};
use evacuation_api::NodeEvacuation;
use evacuation_e2e::{PodSpec, Scene, scene::PATIENCE};
use k8s_openapi::api::{core::v1::Node, policy::v1::PodDisruptionBudget};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};

use serde_json::json;

use crate::{follow::follows, scene};

const NODE: &str = "node-1";
/// Maximum time of a plugin with a request timeout of a few seconds on a busy machine. The retries of kube's
/// client would take more than four minutes.
const BOUND: Duration = Duration::from_mins(1);

/// Runs a plugin that must fail in time, and returns what it printed on standard error.
async fn fails(scene: &Scene, arguments: &[&str]) -> String {
    let began = Instant::now();
    let Output { code, stdout, stderr } = scene.platform().kubectl(arguments).await.unwrap();
    assert!(began.elapsed() < BOUND, "{arguments:?} took {:?}", began.elapsed());
    assert_eq!(code, Some(1), "{arguments:?}: {stdout} {stderr}");
    stderr
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_is_down_each_command_names_it_and_writes_nothing_later() {
    let scene = scene("mute").await;
    for name in ["db-0", "db-1", "db-2"] {
        scene.pods.create(name, &PodSpec::default()).await.unwrap();
    }
    let namespace = format!("--namespace={}", scene.namespace());
    let server = scene.platform().apiserver();
    server.kill().unwrap();

    let silence = [
        "warning: the evacuation API does not answer",
        "Look at: kubectl evacuate check; kubectl get apiservice",
    ];
    let limit = "--request-timeout=5s";
    let status = fails(&scene, &["evacuate", "status", limit]).await;
    assert_has(&status, &silence);
    assert_has(&status, &["error: nodeevacuations cannot be listed"]);
    let why = fails(&scene, &["evacuate", "why", "db-0", &namespace, limit]).await;
    assert_has(&why, &silence);
    let node = fails(&scene, &["evacuate", "node", NODE, limit]).await;
    assert_has(&node, &silence);
    let create = ["create", "evacuation", "db-0", "db-1", "db-2", &namespace, limit];
    let create = fails(&scene, &create).await;
    assert_has(&create, &silence);
    assert_has(&create, &["nothing was written", "; not asked: db-1, db-2"]);
    for (arguments, rest) in [
        (&["cancel", "pod/db-0", "pod/db-1"][..], "; not canceled: pod/db-1"),
        (&["cancel", NODE, "node/node-2"], "; not canceled: node/node-2"),
        (&["pause", NODE, "node/node-2"], "; not paused: node/node-2"),
        (&["set", NODE, "--deadline=10m"], ""),
        (&["override", "db-0"], ""),
    ] {
        let arguments = [&["evacuate"][..], arguments, &[limit]].concat();
        let error = fails(&scene, &arguments).await;
        assert_has(&error, &silence);
        assert_has(&error, &["error: ", rest]);
    }
    let interrupted = follows(&scene, &["node", NODE, "--force", "--request-timeout=2m"]);
    interrupted.wait_for_log(PATIENCE, silence[0]).await.unwrap();
    interrupted.signal(Signal::Interrupt).unwrap();
    assert_eq!(interrupted.wait(PATIENCE).await.unwrap().code(), Some(130));
    // The kube-apiserver notices the outage after a while.
    let since = eventually(PATIENCE, "a command says since when", || async {
        let error = fails(&scene, &["evacuate", "status", limit]).await;
        if error.contains(", unavailable for ") { Ok(()) } else { Err(error) }
    });
    since.await.unwrap();

    server.start().unwrap();
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let all = ListParams::default();
    let drains = eventually(PATIENCE, "the API is back", || drains.list(&all));
    assert_eq!(drains.await.unwrap().items, []);
    let nodes: Api<Node> = Api::all(scene.admin());
    let node = nodes.get(NODE).await.unwrap();
    assert_ne!(node.spec.and_then(|spec| spec.unschedulable), Some(true));
    assert_eq!(scene.pods.evacuations().list(&all).await.unwrap().items, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_evacuation_api_is_told_from_one_that_is_down() {
    let scene = scene("absent").await;
    let service = scene.platform().unregister().await.unwrap();
    let told = eventually(PATIENCE, "the kube-apiserver has forgotten the API", || async {
        let error = fails(&scene, &["evacuate", "status", "--request-timeout=2s"]).await;
        let parts = ["does not serve evacuation.dev", "is this the right context?"];
        if parts.iter().all(|part| error.contains(part)) { Ok(()) } else { Err(error) }
    });
    told.await.unwrap();

    scene.platform().register(service).await.unwrap();
    let served = eventually(PATIENCE, "the API is served again", || async {
        let output = scene.platform().kubectl(&["evacuate", "status"]).await.unwrap();
        if output.code == Some(0) { Ok(()) } else { Err(output.stderr) }
    });
    served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_says_by_a_condition_that_no_controller_works_on_it() {
    let scene = scene("unattended").await;
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let name = scene.namespace();
    let drain = json!({
        "metadata": {"name": name},
        "spec": {"nodes": {"names": [scene.own_node().await]}, "paused": true, "requester": {"name": "a.b/c"}},
    });
    drains.create(&PostParams::default(), &serde_json::from_value(drain).unwrap()).await.unwrap();
    let marked = async |value: &str, reason: &str| {
        let marked = eventually(PATIENCE, "the condition Unattended", || async {
            let drain = drains.get(name).await?;
            let conditions = drain.status.unwrap_or_default().conditions;
            let found = conditions.iter().find(|known| known.type_ == "Unattended").cloned();
            match found.filter(|known| known.status == value && known.reason == reason) {
                Some(condition) => Ok(condition.message),
                None => anyhow::bail!("{conditions:?}"),
            }
        });
        marked.await.unwrap()
    };
    scene.kill_controller();
    let message = marked("True", "NoController").await;
    assert_has(
        &message,
        &[
            "no controller works",
            "evacuation-system/evacuation-controller",
            "Look at: kubectl evacuate check",
        ],
    );
    scene.start_controller().await;
    assert_eq!(marked("False", "ControllerWorks").await, "");
    drains.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_no_controller_works_each_command_and_kubectl_itself_say_so() {
    let scene = scene("leaderless").await;
    scene.pods.create("db-0", &PodSpec::watching()).await.unwrap();
    let namespace = format!("--namespace={}", scene.namespace());
    scene.kill_controller();
    let warning = ["no controller works on evacuations", "evacuation-system/evacuation-controller", " ago)"];
    let status = ["evacuate", "status"];
    let warned = eventually(PATIENCE, "the API server warns", || async {
        let output = scene.platform().kubectl(&status).await.unwrap();
        assert_eq!(output.code, Some(0), "{output:?}");
        if warning.iter().all(|part| output.stderr.contains(part)) { Ok(()) } else { Err(output.stderr) }
    });
    warned.await.unwrap();
    for arguments in [
        &["create", "evacuation", "db-0", &namespace][..],
        &["evacuate", "why", "db-0", &namespace],
        &["evacuate", "set", "pod/db-0", "--deadline=10m", &namespace],
        &["evacuate", "override", "db-0", &namespace],
        &["evacuate", "test", "db-0", &namespace],
        &["evacuate", "node", "node-1", "--force", "--detach"],
        &["evacuate", "node", "node-1", "--force", "--timeout=1s"],
        &["evacuate", "status", "node-1"],
        &["evacuate", "why", "node/node-1"],
        &["evacuate", "set", "node-1", "--deadline=10m"],
        &["evacuate", "pause", "node-1"],
        &["evacuate", "resume", "node-1"],
        &["evacuate", "cancel", "node-1", "--timeout=1s"],
        &["get", "evacuations", &namespace],
    ] {
        let output = scene.platform().kubectl(arguments).await.unwrap();
        assert_has(&output.stderr, &warning);
        assert_eq!(output.stderr.matches(warning[0]).count(), 1, "{output:?}");
        if arguments.contains(&"--timeout=1s") {
            assert_has(&output.stderr, &["timeout: ", "node-1", "waits for a controller"]);
            assert!(!output.stderr.contains("continues"), "{output:?}");
        }
        match arguments[1] {
            "set" | "pause" | "resume" => assert_eq!(output.code, Some(0), "{output:?}"),
            "override" => {
                assert_has(&output.stdout, &["on refusal Override", "pod db-0 waits for a controller"]);
                assert!(!output.stdout.contains("evicted"), "{output:?}");
            }
            "test" => {
                assert_eq!(output.code, Some(1), "{output:?}");
                assert_has(&output.stderr, &["pod db-0 waits for a controller, and was canceled"]);
            }
            _ => {}
        }
        if arguments[..2] == ["evacuate", "status"] || arguments[..2] == ["evacuate", "why"] {
            let said = output.stdout.to_lowercase();
            assert!(!said.contains("no controller works"), "the warning says it once: {output:?}");
            for promise in ["continues", "Next:", "Nothing to do", "Expected", "hat helps: "] {
                assert!(!output.stdout.contains(promise), "{promise}: {output:?}");
            }
        }
    }

    scene.start_controller().await;
    let silent = eventually(PATIENCE, "the warning is gone", || async {
        let output = scene.platform().kubectl(&status).await.unwrap();
        if output.stderr.is_empty() { Ok(()) } else { Err(output.stderr) }
    });
    silent.await.unwrap();
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let canceled = eventually(PATIENCE, "the drain is canceled", || async {
        let left = drains.list(&ListParams::default()).await?.items;
        if left.is_empty() { Ok(()) } else { anyhow::bail!("{} drains", left.len()) }
    });
    canceled.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_kube_apiserver_hangs_the_evacuation_api_is_not_blamed() {
    let scene = scene("hanging").await;
    let server = scene.control_plane().apiserver();
    server.pause().unwrap();
    let error = fails(&scene, &["evacuate", "status", "--request-timeout=5s"]).await;
    server.resume().unwrap();
    assert_has(&error, &["warning: the kube-apiserver http", "does not answer (no reply within 5s)"]);
    assert!(!error.contains("the evacuation API"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_kube_controller_manager_hangs_a_pod_is_held_by_a_budget_that_nobody_counts() {
    let scene = scene("uncounted").await;
    let node = scene.own_node().await;
    for name in ["db-0", "db-1", "db-2"] {
        scene.pod(name, PodSpec::default().label("app", "db").on(&node)).await;
    }
    scene.floor("db", ("app", "db"), 2).await;
    let budgets = scene.api::<PodDisruptionBudget>();
    let computed = eventually(PATIENCE, "the budget allows one", || async {
        let allowed = budgets.get("db").await.unwrap().status.and_then(|status| status.disruptions_allowed);
        if allowed == Some(1) { Ok(()) } else { Err(format!("{allowed:?}")) }
    });
    computed.await.unwrap();
    let manager = scene.control_plane().controller_manager();
    manager.pause().unwrap();
    let drain = ["evacuate", "node", &node, "--force", "--detach", "--name", scene.namespace()];
    let drained = scene.platform().kubectl(&drain).await.unwrap();
    assert!(drained.success(), "{drained:?}");
    let status = ["evacuate", "status", scene.namespace(), "--watch=false"];
    let told = eventually(PATIENCE, "the drain names the process that would count the budget", || async {
        let Output { stdout, .. } = scene.platform().kubectl(&status).await.unwrap();
        let parts = [
            "Slow, 1/3 gone",
            "budget db was not counted since the eviction of pod db-",
            "kubectl get lease kube-controller-manager -n kube-system",
        ];
        if parts.iter().all(|part| stdout.contains(part)) { Ok(()) } else { Err(stdout) }
    });
    told.await.unwrap();

    manager.resume().unwrap();
    let counted = eventually(PATIENCE, "the budget is counted", || async {
        let Output { stdout, .. } = scene.platform().kubectl(&status).await.unwrap();
        if stdout.contains("was not counted") { Err(stdout) } else { Ok(()) }
    });
    counted.await.unwrap();
    let canceled = scene.platform().kubectl(&["evacuate", "cancel", scene.namespace()]).await.unwrap();
    assert!(canceled.success(), "{canceled:?}");
}
