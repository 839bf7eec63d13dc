//! A drain by declaration whose controllers or API server die again and again.

use std::{
    collections::BTreeMap,
    env,
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

/// Number of times that a process is killed.
const KILLS: usize = 10;
/// Longest time between two kills, in milliseconds.
const LONGEST: u64 = 1500;
/// Time for which a budget counts a pod as disrupted whose eviction was cut off after the budget was written
/// and before the pod was: that of the disruption controller. Two such pods take all that this one allows.
const CUT_OFF: Duration = Duration::from_mins(2);
/// Number of pods that are drained.
const PODS: i32 = 45;
/// Number of nodes that are drained.
const NODES: usize = 3;

/// The moments of the kills: random numbers from a seed.
struct Moments(u64);

impl Moments {
    /// Takes the seed from `KILLS_SEED`, or else from the clock, and prints it.
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        let seed = env::var("KILLS_SEED").ok().map_or_else(|| now.into(), |seed| seed.parse().unwrap());
        println!("to repeat the moments of the kills: KILLS_SEED={seed}");
        Self(seed)
    }

    /// The next pause: SplitMix64 of the seed.
    fn pause(&mut self) -> Duration {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Duration::from_millis((mixed ^ (mixed >> 31)) % LONGEST)
    }
}

async fn node_of(scene: &Scene, number: usize) -> String {
    let name = format!("{}-{number}", scene.namespace());
    scene.control_plane().add_node(&name, &[("pool", scene.namespace())]).await.unwrap();
    name
}

/// Creates a Deployment of pods that take some time to start and to stop, under a budget.
async fn workload(scene: &Scene) -> Vec<String> {
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {
            "controlplane.test/running-after": "2500ms", "controlplane.test/gone-after": "500ms",
        }},
        "spec": {
            "nodeSelector": {"pool": scene.namespace()}, "tolerations": controlplane::tolerations(),
            "containers": [{"name": "app", "image": "app"}],
        },
    });
    let spec = json!({"replicas": PODS, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    scene.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let pods = scene.ready_pods("web", usize::try_from(PODS).unwrap(), &[]).await;
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

/// A drain in progress of three nodes with all pods, beside two nodes that take them.
struct Drained {
    scene: Scene,
    nodes: Vec<String>,
    pods: Vec<String>,
    name: String,
    drains: Api<NodeEvacuation>,
}

impl Drained {
    async fn start(scene: Scene) -> Self {
        let mut nodes = Vec::new();
        for number in 0..NODES {
            nodes.push(node_of(&scene, number).await);
        }
        let pods = workload(&scene).await;
        for number in NODES..NODES + 2 {
            node_of(&scene, number).await;
        }
        let name = format!("d-{}", scene.namespace());
        let drain = json!({"metadata": {"name": name}, "spec": {"nodes": {"names": nodes}}});
        let drains: Api<NodeEvacuation> = Api::all(scene.admin());
        drains.create(&PostParams::default(), &serde_json::from_value(drain).unwrap()).await.unwrap();
        Self { scene, nodes, pods, name, drains }
    }

    async fn is_in_progress(&self) {
        let read = eventually(PATIENCE, "the drain can be read", || self.drains.get(&self.name));
        let status = read.await.unwrap().status.unwrap_or_default();
        assert!(!status.is_true(DrainConditionType::Finished), "it has ended too early: {status:?}");
    }

    /// Waits for the end, checks that each pod was evicted once, and takes the drain back.
    async fn ends_well(self) {
        let Self { scene, nodes: drained, pods, name, drains } = self;
        let ended = eventually(CUT_OFF + PATIENCE, "the drain has ended", || async {
            let status = drains.get(&name).await?.status.unwrap_or_default();
            if status.is_true(DrainConditionType::Finished) {
                return Ok(status);
            }
            bail!("{}", serde_json::to_string(&status)?)
        });
        let status = ended.await.unwrap();
        assert!(status.is_true(DrainConditionType::Drained), "{status:?}");

        // The API server can carry an eviction out and reply 504 on a busy machine: 201 may be missing.
        let mut evicted: BTreeMap<String, usize> = BTreeMap::new();
        for event in &scene.all_evictions() {
            *evicted.entry(event.name().to_owned()).or_default() += usize::from(event.code() == 201);
        }
        println!("evictions that succeeded: {evicted:?}");
        assert!(pods.iter().all(|pod| evicted.contains_key(pod)), "{evicted:?}");
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_three_nodes_survives_ten_kills_of_the_controller_and_evicts_each_pod_once() {
    let scene = worker::scene("kills").await;
    scene.platform().start_controllers().await.unwrap();
    let drained = Drained::start(scene).await;
    let mut moments = Moments::new();
    for number in 1..=KILLS {
        let pause = moments.pause();
        println!("kill {number}: the leader acts for {pause:?}");
        tokio::time::sleep(pause).await;
        drained.is_in_progress().await;
        kill_leader(&drained.scene).await;
    }
    drained.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_of_three_nodes_survives_ten_kills_of_the_api_server_and_evicts_each_pod_once() {
    let drained = Drained::start(worker::scene("servers").await).await;
    let mut moments = Moments::new();
    for number in 1..=KILLS {
        let (pause, outage) = (moments.pause(), moments.pause());
        println!("kill {number}: the API server runs for {pause:?} and is gone for {outage:?}");
        tokio::time::sleep(pause).await;
        drained.is_in_progress().await;
        let server = drained.scene.platform().apiserver();
        server.kill().unwrap();
        tokio::time::sleep(outage).await;
        server.start().unwrap();
        drained.scene.platform().available().await.unwrap();
    }
    drained.ends_well().await;
}
