//! Parts that hang, which no process manager starts again: the check and the drain say which.

use anyhow::bail;
use controlplane::{ControlPlane, eventually};
use evacuation_api::{
    DrainBlocker, DrainBlockerReason, DrainConditionType, NodeEvacuation, REPLACEMENT_RESPONDER,
};
use evacuation_e2e::{
    PlatformOptions, Pool, Scene,
    scene::{Item, PATIENCE},
    workload,
};
use k8s_openapi::api::{apps::v1::Deployment, policy::v1::PodDisruptionBudget};
use kube::Api;
use serde_json::{Value, json};

/// A platform with the built-in responders, whose scheduler holds a lease as in a cluster.
static PLATFORMS: Pool = Pool::new(1, || PlatformOptions {
    control_plane: ControlPlane::builder().scheduler_args(&["--leader-elect=true"]),
    components: vec!["built-in-responders".to_owned()],
    ..PlatformOptions::default()
});

/// Waits until an item of the check has that state. No other item may have failed or need care.
async fn until(scene: &Scene, name: &str, state: &str) -> Item {
    let found = eventually(PATIENCE, "the item has that state", || async {
        let mut items = scene.check(None).await.items;
        let item = items.remove(name).unwrap();
        let others = items.values().any(|item| ["failed", "warning"].contains(&item.state.as_str()));
        if item.state == state && !others { Ok(item) } else { bail!("{item:?} {items:?}") }
    });
    found.await.unwrap()
}

/// Creates a Deployment of so many pods on the scene's own node, and a budget of them.
async fn guarded(scene: &Scene, replicas: usize, budget: Value) {
    let mut web = workload("web", replicas, &json!({"controlplane.test/gone-after": "100ms"}));
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({"test": scene.namespace()});
    web["spec"]["template"]["spec"]["tolerations"] = json!(controlplane::tolerations());
    scene.create::<Deployment>(web).await;
    scene.ready_pods("web", replicas, &[]).await;
    let mut spec = budget;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    scene.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

/// Adds a node that takes the scene's pods, too.
async fn add_spare(scene: &Scene) {
    let spare = format!("spare-of-{}", scene.namespace());
    scene.control_plane().add_node(&spare, &[("test", scene.namespace())]).await.unwrap();
}

async fn kubectl(scene: &Scene, arguments: &[&str]) -> String {
    let output = scene.platform().kubectl(arguments).await.unwrap();
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output.stdout
}

async fn drain(scene: &Scene, node: &str) {
    let name = format!("--name={node}");
    kubectl(scene, &["evacuate", "node", node, "--detach", &name]).await;
}

/// Waits until the drain of a node has that stuck blocker.
async fn stuck(scene: &Scene, node: &str, reason: DrainBlockerReason) -> DrainBlocker {
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let found = eventually(PATIENCE, "the drain is stuck", || async {
        let status = drains.get(node).await?.status.unwrap_or_default();
        let is_it = |blocker: &DrainBlocker| blocker.stuck && blocker.reason == reason.as_str();
        match status.blockers.iter().find(|blocker| is_it(blocker)) {
            Some(blocker) => Ok(blocker.clone()),
            None => bail!("{}", serde_json::to_string(&status)?),
        }
    });
    found.await.unwrap()
}

/// Waits until the node is drained, and cancels the drain.
async fn drained(scene: &Scene, node: &str) {
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    let found = eventually(PATIENCE * 2, "the node is drained", || async {
        let status = drains.get(node).await?.status.unwrap_or_default();
        if status.is_true(DrainConditionType::Drained) {
            Ok(())
        } else {
            bail!("{}", serde_json::to_string(&status)?)
        }
    });
    found.await.unwrap();
    kubectl(scene, &["evacuate", "cancel", node]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_responders_that_hang_are_named_by_the_check_and_by_the_drain_that_they_hold_up() {
    const ITEM: &str = "built-in responders";
    let scene = Scene::from_pool("asleep", &PLATFORMS).await;
    let built_in = scene.platform().built_in_responders().unwrap();
    until(&scene, ITEM, "ok").await;
    let node = scene.own_node().await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({"timeoutSeconds": 20})).await;
    guarded(&scene, 1, json!({"maxUnavailable": 0})).await;
    add_spare(&scene).await;

    built_in.pause().unwrap();
    drain(&scene, &node).await;
    let held = stuck(&scene, &node, DrainBlockerReason::BudgetAllowsNone).await;
    let text = "; responder surge.evacuation.dev/replacement did not answer: it was silent for 20 s; what helps: \
                see if the built-in responders work (kubectl evacuate check), and drain again; or ";
    assert!(held.message.contains(text), "{}", held.message);
    let item = until(&scene, ITEM, "failed").await;
    assert!(item.message.starts_with("no built-in responder answers, "), "{item:?}");
    assert!(item.way_out.as_deref().is_some_and(|out| out.starts_with("kubectl get pods")), "{item:?}");

    built_in.resume().unwrap();
    until(&scene, ITEM, "ok").await;
    kubectl(&scene, &["evacuate", "cancel", &node]).await;
    drain(&scene, &node).await;
    drained(&scene, &node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_hangs_is_named_by_the_check_and_by_the_drain_that_waits_for_its_pods() {
    let scene = Scene::from_pool("unplaced", &PLATFORMS).await;
    let scheduler = scene.control_plane().scheduler();
    until(&scene, "scheduler", "ok").await;
    let node = scene.own_node().await;
    guarded(&scene, 2, json!({"maxUnavailable": 1})).await;
    add_spare(&scene).await;

    scheduler.pause().unwrap();
    drain(&scene, &node).await;
    let held = stuck(&scene, &node, DrainBlockerReason::ReplacementUnschedulable).await;
    let text = ", which has no node, and scheduler default-scheduler has not said why; what helps: see if the \
                kube-scheduler works: kubectl get lease kube-scheduler -n kube-system";
    assert!(held.message.ends_with(text), "{}", held.message);
    let item = until(&scene, "scheduler", "warning").await;
    let text = "its lease kube-system/kube-scheduler is ";
    assert!(item.message.starts_with(text) && item.message.ends_with("get no node"), "{item:?}");
    kubectl(&scene, &["get", "lease", "kube-scheduler", "-n", "kube-system"]).await;

    // One that has lost its lease ends when it wakes.
    scheduler.process().kill().unwrap();
    scheduler.process().start().unwrap();
    drained(&scene, &node).await;
    until(&scene, "scheduler", "ok").await;
}
