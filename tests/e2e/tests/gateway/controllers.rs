//! The control plane's own controllers, which know nothing of evacuation.

use evacuation_e2e::{
    PodSpec,
    scene::{answer, end_of, until_time},
    workload,
};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Node, Pod},
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::stage::Stage;

const NODE_CONTROLLER: &str = "system:serviceaccount:kube-system:node-controller";
const REPLICA_SETS: &str = "system:serviceaccount:kube-system:replicaset-controller";

#[tokio::test(flavor = "multi_thread")]
async fn a_taint_asks_and_the_evacuation_carries_the_eviction_out() {
    let stage = Stage::new("taint").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let taint = json!({"key": "test.evacuation.dev/out", "value": "x", "effect": "NoExecute"});
    let nodes: Api<Node> = Api::all(stage.admin());
    let patch = Patch::Merge(json!({"spec": {"taints": [taint]}}));
    nodes.patch(stage.node(), &PatchParams::default(), &patch).await.unwrap();
    let evacuation = stage.evacuation_of("app").await;
    let entry = &evacuation.spec.requesters[0];
    assert_eq!(
        (entry.owner.as_str(), entry.name.as_str()),
        (NODE_CONTROLLER, "gateway.evacuation.dev/taint-eviction")
    );
    stage.reached(&evacuation, 0).await;
    let app = stage.client_of(&pod).await;
    answer(&app, &evacuation, json!({"answer": "Delay", "delaySeconds": 600})).await.unwrap();
    // By then the controller of taints has given up: five tries within 50 ms.
    until_time(chrono::Utc::now() + chrono::TimeDelta::seconds(3)).await;
    assert!(stage.stays(&pod).await);
    let tries = stage.deletions("app").len();
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    stage.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(stage.deletions("app").len(), tries, "the controller of taints tried no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_down_asks_the_pod_that_is_to_go() {
    let stage = Stage::new("scale").await;
    let annotations = json!({"evacuation.dev/responders": "[{\"name\":\"self\"}]"});
    stage.create::<ReplicaSet>(workload("web", 2, &annotations)).await;
    let pods = stage.ready_pods("web", 2, &[]).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
    stage.api::<ReplicaSet>().patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
    let evacuation = controlplane::eventually(evacuation_e2e::scene::PATIENCE, "a pod is asked", || async {
        stage.all_evacuations().await.pop().ok_or("none")
    });
    let evacuation = evacuation.await.unwrap();
    let entry = &evacuation.spec.requesters[0];
    assert_eq!(
        (entry.owner.as_str(), entry.name.as_str()),
        (REPLICA_SETS, "gateway.evacuation.dev/replicaset")
    );
    stage.reached(&evacuation, 0).await;
    let asked = |pod: &&Pod| pod.name_any() == evacuation.spec.target.pod.name;
    let pod = pods.iter().find(asked).unwrap();
    assert!(stage.stays(pod).await);
    answer(&stage.client_of(pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    // The controller's eviction and the retry of the deletion race.
    stage
        .until(&evacuation, "the evacuation has ended", |e| {
            end_of(e).is_some_and(|end| end.starts_with("Evacuated"))
        })
        .await;
    let left = stage.ready_pods("web", 1, &[pod]).await;
    assert_eq!(left.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn preemption_asks_the_victim_and_the_preemptor_gets_its_place() {
    let stage = Stage::new("preempt").await;
    let classes: Api<PriorityClass> = Api::all(stage.admin());
    let class = json!({"metadata": {"name": stage.namespace()}, "value": 1000});
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let wanted = |name: &str, class: Option<&str>| {
        // A node of kwok has 1,000 CPUs.
        let requests = json!({"cpu": "600"});
        json!({
            "metadata": {"name": name, "annotations": {
                "evacuation.dev/responders": "[{\"name\":\"self\"}]", "controlplane.test/gone-after": "100ms",
            }},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": stage.node()}, "tolerations": controlplane::tolerations(), "priorityClassName": class,
                "containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}],
            },
        })
    };
    stage.raw_pod(&wanted("low", None)).await;
    let low = stage.pods.ready("low").await.unwrap();
    stage.raw_pod(&wanted("high", Some(stage.namespace()))).await;
    let evacuation = stage.evacuation_of("low").await;
    let entry = &evacuation.spec.requesters[0];
    assert_eq!(
        (entry.owner.as_str(), entry.name.as_str()),
        ("system:kube-scheduler", "gateway.evacuation.dev/preemption")
    );
    stage.reached(&evacuation, 0).await;
    assert!(stage.stays(&low).await);
    answer(&stage.client_of(&low).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let high = stage.pods.ready("high").await.unwrap();
    assert_eq!(high.spec.unwrap().node_name.as_deref(), Some(stage.node()));
    stage.pods.gone(&low).await.unwrap();
}
