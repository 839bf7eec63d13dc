//! A budget that allows none, for a pod of a Deployment: its message names the replacement responder first,
//! where that one can help.

use evacuation_api::{DrainBlockerReason, REPLACEMENT_RESPONDER};
use evacuation_e2e::{Scene, scene::Availability, workload};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};
use serde_json::{Value, json};

use crate::{
    person::Person,
    room::{drained, status, stuck},
    scene,
};

/// The page that says how to register the responder.
const GUIDE: &str = include_str!("../../../../docs/guide/built-in.md");

/// Returns the example of the guide that registers a responder of that name, in that namespace.
fn example(responder: &str, namespace: &str) -> String {
    let mut blocks = GUIDE.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    let found = blocks.find(|block| block.contains(&format!("name: {responder}\n")));
    let found = found.unwrap_or_else(|| panic!("the guide has no example of {responder}"));
    found.replace("namespace: shop", &format!("namespace: {namespace}"))
}

/// Creates a Deployment of one pod on the scene's own node, with a budget that allows no disruption.
async fn guarded(scene: &Scene, strategy: &Value) -> Pod {
    let mut web = workload("web", 1, &json!({"controlplane.test/gone-after": "100ms"}));
    web["spec"]["strategy"] = strategy.clone();
    web["spec"]["template"]["spec"]["nodeSelector"] = json!({"test": scene.namespace()});
    web["spec"]["template"]["spec"]["tolerations"] = json!(controlplane::tolerations());
    scene.create::<Deployment>(web).await;
    let pod = scene.only_pod("web", None).await;
    let budget = json!({"metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    scene.create::<PodDisruptionBudget>(budget).await;
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_replica_is_replaced_first_when_its_team_registers_the_responder_that_is_named() {
    let scene = scene("replaced").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    let pod = guarded(&scene, &json!({"type": "RollingUpdate"})).await;
    let spare = format!("spare-of-{}", scene.namespace());
    let labels = [("test", scene.namespace())];
    scene.control_plane().add_node(&spare, &labels).await.unwrap();
    let available = Availability::watch(&scene).await;
    let drain = format!("kubectl evacuate node {node} --detach");
    ann.runs(&drain).await;
    stuck(&scene, &node, DrainBlockerReason::BudgetAllowsNone, 1).await;

    let said = ann.runs(&status(&node)).await;
    let (_, rest) = said.split_once("register the responder ").unwrap_or_else(|| panic!("{said}"));
    let (responder, rest) = rest.split_once(' ').unwrap();
    assert!(
        rest.starts_with("for the pod, if the built-in responders are installed, and drain again"),
        "{said}"
    );
    let example = example(responder, scene.namespace());
    bob.runs(&format!("kubectl apply -f - <<'END'\n{example}END")).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
    assert!(scene.stays(&pod).await, "the responder is asked by the next drain");
    ann.runs(&drain).await;
    let replaced = scene.only_pod("web", Some(&pod)).await;
    assert_eq!(replaced.spec.unwrap().node_name.as_deref(), Some(spare.as_str()));
    let status = drained(&scene, &node).await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    assert!(available.bounds().await.0 >= 1, "the app served all the time");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}

/// Whoever registers it all the same learns why it did not help, and is not sent there again.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_replica_of_which_there_are_never_two_goes_by_the_patch_of_its_budget() {
    let scene = scene("recreated").await;
    let (ann, bob) = (Person::drainer(&scene, "ann").await, Person::editor(&scene, "bob").await);
    let node = scene.own_node().await;
    let pod = guarded(&scene, &json!({"type": "Recreate"})).await;
    let drain = format!("kubectl evacuate node {node} --detach");
    ann.runs(&drain).await;
    stuck(&scene, &node, DrainBlockerReason::BudgetAllowsNone, 1).await;
    let said = ann.runs(&status(&node)).await;
    assert!(said.contains("unless two of its pods must not run at once (strategy Recreate"), "{said}");

    let example = example(REPLACEMENT_RESPONDER, scene.namespace());
    bob.runs(&format!("kubectl apply -f - <<'END'\n{example}END")).await;
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
    ann.runs(&drain).await;
    stuck(&scene, &node, DrainBlockerReason::BudgetAllowsNone, 1).await;
    let said = ann.runs(&status(&node)).await;
    assert!(said.contains("surge.evacuation.dev/replacement answered NoReplacement: "), "{said}");
    assert!(said.contains("Deployment web has the strategy Recreate"), "{said}");
    assert!(!said.contains("register the responder"), "{said}");
    let patch = ann.reads(&status(&node), "kubectl patch poddisruptionbudget ").await;
    bob.runs(&patch).await;
    scene.pods.gone(&pod).await.unwrap();
    let status = drained(&scene, &node).await;
    assert_eq!((status.pods.total, status.pods.gone), (1, 1), "{status:?}");
    ann.runs(&format!("kubectl evacuate cancel {node}")).await;
}
