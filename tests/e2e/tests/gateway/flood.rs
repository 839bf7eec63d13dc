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
    PodSpec, Pods, Pool, Scene,
    scene::{PATIENCE, Running, quick},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{EvictParams, ListParams, PostParams},
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    stage::{Stage, options, run},
    warnings::deployment,
};

/// Calls of the tenant in progress at the same time.
const CALLS: usize = 40;
/// Pods of the tenant, each with a silent app.
const PODS: usize = 20;
/// Pause of a connection between two evictions, so that the flood leaves some of the shared CPU.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause of a connection between two large manifests. Each costs as much CPU as many evictions.
const LONG_PAUSE: Duration = Duration::from_millis(500);

/// A platform that no other test floods.
static POOL: Pool = Pool::new(1, options);

/// Size of the annotation of a flooding manifest, in bytes. All annotations of an object have 256 KiB.
const MANIFEST: usize = 200 << 10;

/// Calls on many connections, until this is dropped.
struct Flood {
    replies: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Flood {
    /// Calls again and again. `call` gets the number of the connection and of its turn, and returns true for
    /// one that passed.
    fn begin<F>(pause: Duration, call: impl Fn(usize, usize) -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = bool> + Send,
    {
        let (replies, passed) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let mut tasks = JoinSet::new();
        for number in 0..CALLS {
            let (call, replies, passed) = (call.clone(), Arc::clone(&replies), Arc::clone(&passed));
            tasks.spawn(async move {
                // All handshakes at the same moment would test the CPU that the test shares with the servers.
                tokio::time::sleep(PAUSE * u32::try_from(number).unwrap()).await;
                for turn in 0_usize.. {
                    let has_passed = call(number, turn).await;
                    replies.fetch_add(1, Ordering::Relaxed);
                    passed.fetch_add(usize::from(has_passed), Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                }
            });
        }
        Self { replies, passed, _tasks: tasks }
    }

    /// Evictions of pods that exist and of pods that do not.
    fn evictions(client: &Client, namespace: &str) -> Self {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        Self::begin(PAUSE, move |number, turn| {
            let (api, name) =
                (api.clone(), if turn.is_multiple_of(2) { number % PODS } else { number + 1000 });
            async move { api.evict(&format!("app-{name}"), &EvictParams::default()).await.is_ok() }
        })
    }

    /// Dry runs of pods with a large annotation that cannot be read.
    fn manifests(client: &Client, namespace: &str) -> Self {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let annotations = json!({"evacuation.dev/responders": "[".repeat(MANIFEST)});
        Self::begin(LONG_PAUSE, move |number, _| {
            let pod = json!({
                "metadata": {"name": format!("pod-{number}"), "annotations": annotations},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            });
            let api = api.clone();
            async move {
                let dry_run = PostParams { dry_run: true, ..PostParams::default() };
                api.create(&dry_run, &serde_json::from_value(pod).unwrap()).await.is_ok()
            }
        })
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

/// Calls have a share for each caller.
///
/// # Attack
///
/// - Attacker: a tenant who may evict its pods
/// - Act: floods the gateway with evictions
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_by_one_tenant_neither_holds_up_an_unrelated_drain_nor_opens_the_gate() {
    let stage = Stage::alone(Scene::from_pool("flood", &POOL)).await;
    for number in 0..PODS {
        let silent = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 3600}]));
        stage.app_pod(&format!("app-{number}"), silent).await;
    }
    let user = stage.user("mallory", &["edit"]).await;
    let right = json!({"resource": "pods", "subresource": "eviction", "verb": "create"});
    stage.decided(&user.name, &right, true).await;

    let unrelated = Unrelated::new(&stage).await;
    let flood = Flood::evictions(&user.client, stage.namespace());
    flood.flows().await;
    unrelated.drains(&stage).await;
    flood.flows().await;
    assert_eq!(flood.passed.load(Ordering::Relaxed), 0, "no silent app was evicted");
    // Warnings have workers of their own.
    let file = stage.control_plane().folder().subfolder("flood").unwrap().join("deployment.json");
    std::fs::write(&file, deployment("[")).unwrap();
    let warned = eventually(PATIENCE, "a warning is given", || async {
        let path = file.display().to_string();
        let said = run(stage.kubectl(&["create", "--dry-run=server", "-f", &path])).await.stderr;
        if said.contains("is not JSON") { Ok(()) } else { Err(said) }
    });
    warned.await.unwrap();
}

/// Warnings take no worker of the decisions.
///
/// # Attack
///
/// - Attacker: a tenant who may create pods
/// - Act: floods the gateway with manifests that it is to warn of
/// - Promise: 8, 11
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_manifests_neither_holds_up_an_unrelated_drain_nor_opens_the_gate() {
    let stage = Stage::alone(Scene::from_pool("manifests", &POOL)).await;
    let user = stage.user("mallory", &["edit"]).await;
    stage.decided(&user.name, &json!({"resource": "pods", "verb": "create"}), true).await;
    let unrelated = Unrelated::new(&stage).await;
    let before = stage.gateway().count("passed_unasked", &[]).await.unwrap();
    let flood = Flood::manifests(&user.client, stage.namespace());
    flood.flows().await;
    unrelated.drains(&stage).await;
    flood.flows().await;
    assert!(flood.passed.load(Ordering::Relaxed) > 0, "warnings refuse nothing");
    let unasked = stage.gateway().count("passed_unasked", &[]).await.unwrap() - before;
    assert!(unasked < 1.0, "{unasked} calls passed unasked");
}

/// A pod of another namespace on a node of its own. Its app accepts.
struct Unrelated {
    pods: Pods,
    node: String,
    pod: Pod,
    _app: Running,
}

impl Unrelated {
    async fn new(stage: &Stage) -> Self {
        let pods = stage.platform().namespace("unrelated").await.unwrap();
        let node = format!("{}-unrelated", stage.node());
        stage.control_plane().add_node(&node, &[]).await.unwrap();
        let pod = pods.create("db-0", &quick(PodSpec::watching()).on(&node)).await.unwrap();
        let client = evacuation_e2e::pod_client(stage.platform(), &pod).await.unwrap();
        let app = tokio::spawn(Responder::of_pod(client).run(|_| async { Answer::accept() }));
        Self { pods, node, pod, _app: app.into() }
    }

    /// Drains the node by plain kubectl. The app must be asked.
    async fn drains(self, stage: &Stage) {
        let mut drain = stage.platform().kubectl_command();
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        drain.args(["drain", &self.node, "--force", "--ignore-daemonsets", &timeout]);
        let drained = run(drain).await;
        assert!(drained.success(), "{drained:?}");
        self.pods.gone(&self.pod).await.unwrap();
        let asked = self.pods.evacuations().list(&ListParams::default()).await.unwrap().items;
        assert_eq!(asked.len(), 1, "the app of the drained pod was asked");
        let end = self.pods.ended(&asked[0].name_any()).await.unwrap();
        assert_eq!(end.to_string(), "evacuated (Evicted)");
    }
}
