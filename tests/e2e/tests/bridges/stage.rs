//! A scene with a node of its own, and objects of foreign kinds.

use anyhow::bail;
use controlplane::eventually;
use evacuation_api::{Evacuation, NodeEvacuation};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene, root,
    scene::{PATIENCE, end_of},
};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// The kinds are installed once for all tests of the shared platform.
static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// The platform whose controller tests kill, lent to one test at a time. On a shared platform, the test
/// beside it would start the controller again in the middle of the outage.
static KILLED: Pool = Pool::new(1, options);

const BRIDGES: [&str; 3] = ["kubevirt", "node-maintenance", "nvsentinel"];
const CRDS: [&str; 3] = [
    "tests/e2e/tests/bridges/crds/kubevirt.yaml",
    "tests/e2e/tests/bridges/crds/nodemaintenance.yaml",
    "deploy/components/bridge-nvsentinel/drainrequests.yaml",
];

/// Options of a platform whose controller runs every bridge.
pub(crate) fn options() -> PlatformOptions {
    let controller_args = BRIDGES.iter().map(|bridge| format!("--bridge={bridge}")).collect();
    PlatformOptions { controller_args, ..PlatformOptions::default() }
}

/// A scene with a node of its own, on a platform with every bridge.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) scene: Scene,
    pub(crate) node: String,
}

impl Stage {
    pub(crate) async fn new(prefix: &str) -> Self {
        let scene = Scene::with(prefix, options).await;
        INSTALLED.get_or_init(|| install(&scene)).await;
        Self::on(scene).await
    }

    /// The same on a platform that no other test uses meanwhile, so that its controller may be killed.
    pub(crate) async fn to_kill(prefix: &str) -> Self {
        let scene = Scene::from_pool(prefix, &KILLED).await;
        install(&scene).await;
        Self::on(scene).await
    }

    async fn on(scene: Scene) -> Self {
        let node = scene.own_node().await;
        Self { scene, node }
    }

    /// A pod on the node whose app is asked, and has ten minutes to answer.
    pub(crate) async fn pod(&self, name: &str) -> Pod {
        let patient = PodSpec::registered(&json!([{"name": "self", "timeoutSeconds": 600}]));
        self.scene.pod(name, patient.on(&self.node)).await
    }

    /// Kills the controller of a stage [`Self::to_kill`], and lets the next one lead as soon as it starts.
    pub(crate) async fn kill_controller(&self) {
        self.scene.platform().controllers()[0].kill().unwrap();
        self.scene.platform().free_lease().await.unwrap();
    }

    pub(crate) async fn start_controller(&self) {
        self.scene.platform().start_controllers().await.unwrap();
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.scene.admin())
    }

    pub(crate) fn drains(&self) -> Api<NodeEvacuation> {
        Api::all(self.scene.admin())
    }

    /// The drains that bridges opened for this scene's node.
    pub(crate) async fn drains_of_node(&self) -> Vec<NodeEvacuation> {
        let mut all = self.drains().list(&ListParams::default()).await.unwrap().items;
        all.retain(|drain| drain.spec.nodes.names == [self.node.as_str()]);
        all
    }

    pub(crate) async fn is_cordoned(&self) -> bool {
        let node = self.nodes().get(&self.node).await.unwrap();
        node.spec.and_then(|spec| spec.unschedulable) == Some(true)
    }

    /// Waits until the only Evacuation of a pod has ended like that.
    pub(crate) async fn ends(&self, pod: &str, how: &str) -> Evacuation {
        let evacuation = self.scene.evacuation_of(pod).await;
        self.scene.until(&evacuation, how, |e| end_of(e).as_deref() == Some(how)).await
    }
}

async fn install(scene: &Scene) {
    let root = root();
    let mut arguments = Vec::new();
    for crd in CRDS {
        arguments.push(["-f".to_owned(), root.join(crd).display().to_string()]);
    }
    for bridge in BRIDGES {
        let access = root.join(format!("deploy/components/bridge-{bridge}/access"));
        arguments.push(["-k".to_owned(), access.display().to_string()]);
    }
    for [flag, path] in &arguments {
        let applied = scene.control_plane().kubectl(&["apply", flag, path]).await.unwrap();
        assert!(applied.success(), "{applied:?}");
    }
    let established = eventually(PATIENCE, "the kinds are established", || async {
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        let waited = scene.control_plane().kubectl(&wait).await?;
        if waited.success() { Ok(()) } else { bail!("{}", waited.stderr) }
    });
    established.await.unwrap();
}

/// Objects of one foreign kind, as `admin`.
#[derive(Debug)]
pub(crate) struct Foreign {
    pub(crate) api: Api<DynamicObject>,
    resource: ApiResource,
    events: Api<Event>,
}

impl Foreign {
    /// Objects of a kind, in a namespace or of the cluster.
    pub(crate) fn new(stage: &Stage, gvk: [&str; 3], plural: &str, namespace: Option<&str>) -> Self {
        let kind = GroupVersionKind::gvk(gvk[0], gvk[1], gvk[2]);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let client = stage.scene.admin();
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        Self { api, resource, events: Api::namespaced(client, namespace.unwrap_or("default")) }
    }

    pub(crate) async fn create(&self, mut object: Value) -> DynamicObject {
        object["apiVersion"] = json!(self.resource.api_version);
        object["kind"] = json!(self.resource.kind);
        let object = serde_json::from_value(object).unwrap();
        self.api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Merges a change into an object.
    pub(crate) async fn change(&self, name: &str, change: Value) -> DynamicObject {
        self.api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap()
    }

    /// Merges a change into the status of an object, as its real controller does.
    pub(crate) async fn change_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until an object is as wanted.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> DynamicObject {
        let found = eventually(PATIENCE, what, || async {
            let object = self.api.get(name).await?;
            if wanted(&object) { Ok(object) } else { bail!("{}", serde_json::to_string(&object)?) }
        });
        found.await.unwrap()
    }

    /// Waits until an object is gone.
    pub(crate) async fn gone(&self, name: &str) {
        let gone = eventually(PATIENCE, "the object is gone", || async {
            match self.api.get_opt(name).await? {
                Some(found) => bail!("{}", serde_json::to_string(&found)?),
                None => Ok(()),
            }
        });
        gone.await.unwrap();
    }

    /// Waits for an Event on an object.
    pub(crate) async fn event(&self, name: &str, reason: &str) {
        let of_object = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let found = eventually(PATIENCE, reason, || async {
            let events = self.events.list(&of_object).await?.items;
            let found = events.iter().any(|event| event.reason.as_deref() == Some(reason));
            if found { Ok(()) } else { bail!("{} other events", events.len()) }
        });
        found.await.unwrap();
    }
}

/// A string of an object, at a path such as `/status/phase`.
pub(crate) fn text<'a>(object: &'a DynamicObject, path: &str) -> &'a str {
    object.data.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn has_finalizer(object: &DynamicObject, finalizer: &str) -> bool {
    object.finalizers().iter().any(|known| known == finalizer)
}
