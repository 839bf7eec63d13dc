//! Story 5: an autoscaler takes a replica away and asks which; the workload's operator refuses the one whose
//! loss would break the spread over zones, and the autoscaler asks another.

use evacuation_e2e::{Scene, scene::PATIENCE};
use std::{collections::BTreeMap, time::Duration};

use evacuation_api::RefusalPolicy;
use evacuation_client::{Answer, End, Question};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::registration::register;

const OPERATOR: &str = "web.acme.io/spread";
/// By how many pods two zones may differ.
const MAX_SKEW: usize = 1;

/// Number of pods in each zone, also of zones without any.
fn spread(pods: &[Pod], without: Option<&str>) -> BTreeMap<String, usize> {
    let mut zones = BTreeMap::new();
    for pod in pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let count: &mut usize = zones.entry(node.unwrap()).or_default();
        *count += usize::from(without != Some(pod.name_any().as_str()));
    }
    zones
}

fn skew(zones: &BTreeMap<String, usize>) -> usize {
    zones.values().max().unwrap() - zones.values().min().unwrap()
}

/// The operator: it refuses what would break the spread; else it takes that very replica away, and holds the
/// eviction back until it is gone, so that the ReplicaSet makes no other in its place.
async fn scale_down(client: Client, namespace: String, question: Question) -> Answer {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let all = pods.list(&ListParams::default().labels("app=web")).await.unwrap().items;
    if skew(&spread(&all, Some(question.pod()))) > MAX_SKEW {
        return Answer::refuse("its zone would be empty").reason("SpreadWouldBreak");
    }
    let work = async {
        let cheap =
            json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}});
        let params = PatchParams::default();
        pods.patch(question.pod(), &params, &Patch::Merge(cheap)).await.unwrap();
        let sets: Api<ReplicaSet> = Api::namespaced(client, &namespace);
        let fewer = json!({"spec": {"replicas": all.len() - 1}});
        sets.patch("web", &params, &Patch::Merge(fewer)).await.unwrap();
        std::future::pending::<()>().await;
    };
    // The pod goes, and with it the question.
    let _ = question.hold(Duration::from_secs(20), work).await;
    Answer::accept()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replica_whose_loss_would_break_the_spread_is_refused_and_another_goes() {
    let scene = Scene::new("spread").await;
    let control_plane = scene.control_plane();
    let zones = ["a", "b"].map(|zone| format!("zone-{zone}-of-{}", scene.namespace()));
    for zone in &zones {
        let labels = [("topology.kubernetes.io/zone", zone.as_str()), ("for", scene.namespace())];
        control_plane.add_node(zone, &labels).await.unwrap();
    }
    let labels = json!({"app": "web"});
    let constraint = json!({
        "maxSkew": MAX_SKEW, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    });
    let template = json!({
        "metadata": {"labels": labels, "annotations": {
            "controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms",
        }},
        "spec": {
            "nodeSelector": {"for": scene.namespace()}, "tolerations": controlplane::tolerations(), "topologySpreadConstraints": [constraint],
            "containers": [{"name": "app", "image": "app"}],
        },
    });
    let _: ReplicaSet = scene
        .create(json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        }))
        .await;
    let before = scene.ready_pods("web", 3, &[]).await;
    assert_eq!(skew(&spread(&before, None)), 1, "two in one zone, one in the other");
    register(&scene, OPERATOR, "web", 10_000).await;
    let (client, namespace) = (scene.admin(), scene.namespace().to_owned());
    let _operator =
        scene.responder(OPERATOR, move |question| scale_down(client.clone(), namespace.clone(), question));

    // The autoscaler asks for the only pod of its zone first, as one that knows nothing of zones may.
    let counts = spread(&before, None);
    let alone = |pod: &&Pod| counts[pod.spec.as_ref().unwrap().node_name.as_ref().unwrap()] == 1;
    let (lonely, other) =
        (before.iter().find(alone).unwrap(), before.iter().find(|pod| !alone(pod)).unwrap());
    let autoscaler =
        scene.requester("autoscaler.acme.io/web").reason("ScaleDown").on_refusal(RefusalPolicy::GiveUp);
    let mut ends = Vec::new();
    for candidate in [lonely, other] {
        let evacuation = autoscaler.evacuate_pod(candidate).await.unwrap();
        let end = tokio::time::timeout(PATIENCE, evacuation.wait()).await.unwrap().unwrap();
        let taken = matches!(end, End::Evacuated { .. });
        ends.push(end);
        if taken {
            break;
        }
    }
    let [End::Failed { reason, message }, End::Evacuated { reason: gone, .. }] = &ends[..] else {
        panic!("{ends:?}");
    };
    assert_eq!((reason.as_str(), gone.as_str()), ("Refused", "GoneByOther"));
    assert!(message.contains("SpreadWouldBreak: its zone would be empty"), "{message}");
    let after = scene.ready_pods("web", 2, &[other]).await;
    assert_eq!(skew(&spread(&after, None)), 0);
    assert!(scene.stays(lonely).await);
    assert!(
        after.iter().all(|pod| before.iter().any(|old| old.uid() == pod.uid())),
        "no other was made in its place"
    );
    assert_eq!(scene.all_evictions().len(), 0, "the workload took its replica away itself");
}
