//! A namespace and a node behind the gateway.

use std::{ops::Deref, process::Command};

use controlplane::{Output, eventually, output_of};
use evacuation_api::Evacuation;
use evacuation_e2e::{
    Gateway, PlatformOptions, PodSpec, Scene,
    scene::{PATIENCE, quick},
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api,
    api::{EvictParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::{RwLock, RwLockReadGuard, RwLockWriteGuard},
    task::JoinHandle,
};

/// Rows for users of the tests whose patience is short.
const CONFIGURATION: &str = "
apiVersion: gateway.evacuation.dev/v1alpha1
kind: GatewayConfiguration
callers:
- name: hasty
  matches:
  - users: [hasty-*]
  patienceSeconds: 30
- name: yielding
  matches:
  - users: ['system:serviceaccount:kube-system:yielding-*']
  onRefusal: GiveUp
- name: overriding
  matches:
  - users: ['system:serviceaccount:kube-system:overriding-*']
  onRefusal: Override
- name: replicaset
  matches:
  - users: [system:serviceaccount:kube-system:replicaset-controller]
    ownerKinds: [ReplicaSet]
  patienceSeconds: 600
  followsOwner: true
  countDeletions: true
  blockedPatienceSeconds: 8
";

/// The machine's CPU. Most tests share it. Those that need most of it, or that fail when a call passes
/// because the gateway is late, have it for themselves.
static CPU: RwLock<()> = RwLock::const_new(());

/// A part of the machine's CPU.
enum Cpu {
    Shared { _part: RwLockReadGuard<'static, ()> },
    Whole { _whole: RwLockWriteGuard<'static, ()> },
}

/// A scene behind the gateway, with a node of its own.
pub(crate) struct Stage {
    // Dropped in this order: the scene ends before others get its CPU.
    scene: Scene,
    node: String,
    _cpu: Cpu,
}

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

/// Options of a platform with a gateway.
pub(crate) fn options() -> PlatformOptions {
    PlatformOptions { gateway: Some(CONFIGURATION.to_owned()), ..PlatformOptions::default() }
}

impl Stage {
    /// Returns a stage on the platform that all tests of this binary share.
    pub(crate) async fn new(prefix: &str) -> Self {
        Self::of(Scene::with(prefix, options)).await
    }

    /// Returns a stage of that scene, once the kube-apiserver asks the gateway.
    pub(crate) async fn of(scene: impl Future<Output = Scene>) -> Self {
        let cpu = Cpu::Shared { _part: CPU.read().await };
        Self::with(scene.await, cpu).await
    }

    /// Returns a stage of that scene, beside which no other one runs.
    pub(crate) async fn alone(scene: impl Future<Output = Scene>) -> Self {
        let cpu = Cpu::Whole { _whole: CPU.write().await };
        Self::with(scene.await, cpu).await
    }

    async fn with(scene: Scene, cpu: Cpu) -> Self {
        let node = scene.own_node().await;
        let stage = Self { scene, node, _cpu: cpu };
        stage.is_asked().await;
        stage
    }

    async fn is_asked(&self) {
        let pods = self.pods.api();
        let asked = eventually(PATIENCE, "the gateway is asked", || async {
            let before = self.gateway().count("calls", &[]).await.unwrap();
            // A pod that does not exist is asked about, too.
            pods.evict("none", &EvictParams::default()).await.unwrap_err();
            let now = self.gateway().count("calls", &[]).await.unwrap();
            if now > before { Ok(()) } else { Err("no call") }
        });
        asked.await.unwrap();
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        self.platform().gateway().unwrap()
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// A pod of that name on the stage's node that goes quickly.
    pub(crate) async fn app_pod(&self, name: &str, spec: PodSpec) -> Pod {
        self.pods.create(name, &quick(spec).on(&self.node)).await.unwrap()
    }

    /// Sets labels of the namespace.
    pub(crate) async fn label_namespace(&self, labels: &[(&str, &str)]) {
        let labels: serde_json::Map<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let api: Api<Namespace> = Api::all(self.admin());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        api.patch(self.namespace(), &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns plain kubectl in the namespace, as `admin`.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = self.platform().kubectl_command();
        command.args(arguments).args(["-n", self.namespace()]);
        command
    }

    /// Returns `kubectl drain` of the stage's node.
    pub(crate) fn drain(&self, more: &[&str]) -> Command {
        let mut command = self.platform().kubectl_command();
        command.args(["drain", &self.node, "--force", "--ignore-daemonsets"]).args(more);
        command
    }

    /// Returns the Evacuations of the namespace.
    pub(crate) async fn all_evacuations(&self) -> Vec<Evacuation> {
        self.evacuations().list(&ListParams::default()).await.unwrap().items
    }
}

/// Runs a command to its end.
pub(crate) async fn run(command: Command) -> Output {
    output_of("kubectl", command).await.unwrap()
}

/// Runs a command beside the test.
pub(crate) fn start(command: Command) -> JoinHandle<Output> {
    tokio::spawn(run(command))
}

/// Asserts that a text contains each of these.
pub(crate) fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}
