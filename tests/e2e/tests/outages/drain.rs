//! A drain by declaration whose controllers die again and again.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{CORDONED_BY_ANNOTATION, DrainConditionType, NodeEvacuation};
use evacuation_e2e::{Scene, scene::PATIENCE};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::worker;

/// Number of times that the leader is killed.
const KILLS: usize = 3;
/// Longest time for which a leader acts before it is killed, in milliseconds.
const LONGEST: u32 = 3000;

/// Some time up to [`LONGEST`], and another one each time.
fn moment() -> Duration {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    Duration::from_millis((nanos / 1000 % LONGEST).into())
}

async fn node_of(scene: &Scene, number: usize) -> String {
    let name = format!("{}-{number}", scene.namespace());
    scene.control_plane().add_node(&name, &[("pool", scene.namespace())]).await.unwrap();
    name
}

/// Creates a Deployment of 12 pods that take some time to start and to stop, under a budget.
async fn workload(scene: &Scene) -> Vec<String> {
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {
            "controlplane.test/running-after": "2500ms", "controlplane.test/gone-after": "500ms",
        }},
        "spec": {
            "nodeSelector": {"pool": scene.namespace()},
            "containers": [{"name": "app", "image": "app"}],
        },
    });
    let spec = json!({"replicas": 12, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    scene.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let pods = scene.ready_pods("web", 12, &[]).await;
    scene.pods.budget("web", ("app", "web"), 2).await.unwrap();
    pods.iter().map(ResourceExt::name_any).collect()
}

/// Kills the leader, waits until the other controller leads, and starts the killed one.
async fn kill_leader(scene: &Scene) {
    let old = scene.platform().holder().await.unwrap();
    let (leader, _) = scene.platform().leader().await.unwrap();
    leader.kill().unwrap();
    let taken = eventually(PATIENCE, "the other controller leads", || async {
        let new = scene.platform().holder().await?;
        if new.is_some() && new != old { Ok(()) } else { bail!("{new:?}") }
    });
    taken.await.unwrap();
    leader.start().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_three_nodes_survives_three_kills_and_evicts_each_pod_once() {
    let scene = worker::scene("kills").await;
    scene.platform().start_controllers().await.unwrap();
    let mut drained = Vec::new();
    for number in 0..3 {
        drained.push(node_of(&scene, number).await);
    }
    let old = workload(&scene).await;
    for number in 3..5 {
        node_of(&scene, number).await;
    }
    let name = format!("d-{}", scene.namespace());
    let drain = json!({"metadata": {"name": name}, "spec": {"nodes": {"names": drained}}});
    let drains: Api<NodeEvacuation> = Api::all(scene.admin());
    drains.create(&PostParams::default(), &serde_json::from_value(drain).unwrap()).await.unwrap();
    for _ in 0..KILLS {
        let pause = moment();
        println!("the leader acts for {pause:?}");
        tokio::time::sleep(pause).await;
        let status = drains.get(&name).await.unwrap().status.unwrap_or_default();
        assert!(!status.is_true(DrainConditionType::Finished), "it has ended too early: {status:?}");
        kill_leader(&scene).await;
    }
    let ended = eventually(PATIENCE, "the drain has ended", || async {
        let status = drains.get(&name).await?.status.unwrap_or_default();
        if status.is_true(DrainConditionType::Finished) {
            return Ok(status);
        }
        bail!("{}", serde_json::to_string(&status)?)
    });
    let status = ended.await.unwrap();
    assert!(status.is_true(DrainConditionType::Drained), "{status:?}");

    // The API server can carry an eviction out and reply 504 on a busy machine, so that 201 may be missing.
    let mut evicted: BTreeMap<String, usize> = BTreeMap::new();
    for event in &scene.all_evictions() {
        *evicted.entry(event.name().to_owned()).or_default() += usize::from(event.code() == 201);
    }
    println!("evictions that succeeded: {evicted:?}");
    assert!(old.iter().all(|pod| evicted.contains_key(pod)), "{evicted:?}");
    assert!(evicted.values().all(|count| *count <= 1), "{evicted:?}");
    let nodes: Api<Node> = Api::all(scene.admin());
    for node in &drained {
        let live = nodes.get(node).await.unwrap();
        assert_eq!(live.spec.clone().unwrap().unschedulable, Some(true), "{node}");
        assert_eq!(live.annotations().get(CORDONED_BY_ANNOTATION), Some(&name), "{node}");
    }
    drains.delete(&name, &DeleteParams::default()).await.unwrap();
    let released = eventually(PATIENCE, "the nodes are released", || async {
        let left = drains.get_opt(&name).await?;
        if left.is_some() {
            bail!("{left:?}")
        }
        for node in &drained {
            let live = nodes.get(node).await?;
            if live.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
                bail!("{node} is cordoned");
            }
        }
        Ok(())
    });
    released.await.unwrap();
}
