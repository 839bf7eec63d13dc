//! A tenant that floods the webhook.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use controlplane::eventually;
use evacuation_client::{Answer, Responder};
use evacuation_e2e::{
    PodSpec, Pool, Scene,
    scene::{PATIENCE, Running, quick},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{EvictParams, ListParams},
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::stage::{CPU, Stage, options, run};

/// Calls of the tenant in progress at the same time.
const CALLS: usize = 40;
/// Pods of the tenant, each with a silent app.
const PODS: usize = 20;
/// Pause of a connection between two calls, so that the flood leaves some of the shared CPU.
const PAUSE: Duration = Duration::from_millis(100);

/// A platform that no other test floods.
static POOL: Pool = Pool::new(1, options);

/// Evictions of pods that exist and of pods that do not, until this is dropped.
struct Flood {
    replies: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Flood {
    fn begin(client: &Client, namespace: &str) -> Self {
        let (replies, passed) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let mut tasks = JoinSet::new();
        for number in 0..CALLS {
            let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let (replies, passed) = (Arc::clone(&replies), Arc::clone(&passed));
            tasks.spawn(async move {
                // All handshakes at the same moment would test the CPU that the test shares with the servers.
                tokio::time::sleep(PAUSE * u32::try_from(number).unwrap()).await;
                for turn in 0_usize.. {
                    let name = if turn.is_multiple_of(2) { number % PODS } else { number + 1000 };
                    let evicted = api.evict(&format!("app-{name}"), &EvictParams::default()).await;
                    replies.fetch_add(1, Ordering::Relaxed);
                    passed.fetch_add(usize::from(evicted.is_ok()), Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { replies, passed, _tasks: tasks }
    }

    async fn flows(&self) {
        let before = self.replies.load(Ordering::Relaxed);
        let flows = eventually(PATIENCE, "the flood flows", || async {
            let replies = self.replies.load(Ordering::Relaxed) - before;
            if replies >= 4 * CALLS { Ok(()) } else { Err(replies) }
        });
        flows.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_by_one_tenant_neither_holds_up_an_unrelated_drain_nor_opens_the_gate() {
    let _alone = CPU.lock().await;
    let stage = Stage::of(Scene::from_pool("flood", &POOL).await).await;
    for number in 0..PODS {
        let silent = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 3600}]));
        stage.app_pod(&format!("app-{number}"), silent).await;
    }
    let user = stage.user("mallory", &["edit"]).await;
    let right = json!({"resource": "pods", "subresource": "eviction", "verb": "create"});
    stage.decided(&user.name, &right, true).await;

    let other = stage.platform().namespace("unrelated").await.unwrap();
    let node = format!("{}-unrelated", stage.node());
    stage.control_plane().add_node(&node, &[]).await.unwrap();
    let spec = quick(PodSpec::watching()).on(&node);
    let pod = other.create("db-0", &spec).await.unwrap();
    let client = evacuation_e2e::pod_client(stage.platform(), &pod).await.unwrap();
    let _app: Running = tokio::spawn(Responder::of_pod(client).run(|_| async { Answer::accept() })).into();

    let flood = Flood::begin(&user.client, stage.namespace());
    flood.flows().await;
    let mut drain = stage.platform().kubectl_command();
    drain.args(["drain", &node, "--force", "--ignore-daemonsets", "--timeout=60s"]);
    let drained = run(drain).await;
    assert!(drained.success(), "{drained:?}");
    flood.flows().await;
    other.gone(&pod).await.unwrap();
    assert_eq!(flood.passed.load(Ordering::Relaxed), 0, "no silent app was evicted");
    let asked = other.evacuations().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(asked.len(), 1, "the app of the drained pod was asked");
    assert_eq!(other.ended(&asked[0].name_any()).await.unwrap().to_string(), "evacuated (Evicted)");
}
