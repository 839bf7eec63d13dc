//! A flood that takes the kube-apiserver's own seats. Each of its requests keeps one while the API server
//! asks the kube-apiserver for the target.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use controlplane::{ControlPlane, eventually};
use evacuation_e2e::{
    PlatformOptions, Pool, Scene,
    scene::{Bystander, PATIENCE, entry, wanting},
};
use kube::api::PostParams;
use serde_json::json;
use tokio::task::JoinSet;

use crate::tenant::delayed;

/// Requests of the flood at once: more than the seats of the kube-apiserver together.
const AT_ONCE: usize = 80;
/// Pause of each between two requests.
const PAUSE: Duration = Duration::from_millis(20);

/// A platform whose kube-apiserver has few seats.
static PLATFORM: Pool = Pool::new(1, || PlatformOptions {
    control_plane: ControlPlane::builder()
        .apiserver_args(&["--max-requests-inflight=40", "--max-mutating-requests-inflight=20"]),
    ..PlatformOptions::default()
});

/// Creations of Evacuations of a pod that does not exist, by one service account, until this is dropped.
struct Flood {
    /// Number of replies of each HTTP code.
    replies: Arc<Mutex<BTreeMap<u16, usize>>>,
    _tasks: JoinSet<()>,
}

impl Flood {
    async fn begin(scene: &Scene) -> Self {
        let namespace = scene.namespace();
        let account = format!("system:serviceaccount:{namespace}:default");
        scene.bind(&account, "ClusterRole", "edit").await;
        let right = json!({"group": "evacuation.dev", "resource": "evacuations", "verb": "create"});
        scene.decided(&account, &right, true).await;
        let token = scene.control_plane().service_account_token(namespace, "default", None).await.unwrap();
        let replies = Arc::<Mutex<BTreeMap<u16, usize>>>::default();
        let mut tasks = JoinSet::new();
        let wanted = wanting("no-such-pod", &[entry("tenant.acme.io/flood", json!({}))]);
        for _ in 0..AT_ONCE {
            let client = scene.control_plane().client_with_token(&token).await.unwrap();
            let (api, wanted) = (scene.evacuations_as(&client), wanted.clone());
            let replies = Arc::clone(&replies);
            tasks.spawn(async move {
                loop {
                    let code = match api.create(&PostParams::default(), &wanted).await {
                        Ok(_) => 201,
                        Err(kube::Error::Api(status)) => status.code,
                        // No reply.
                        Err(_) => 0,
                    };
                    *replies.lock().unwrap().entry(code).or_default() += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { replies, _tasks: tasks }
    }

    fn replies(&self) -> BTreeMap<u16, usize> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until as many more replies have come as there are requests at once.
    async fn flows(&self) {
        let before: usize = self.replies().values().sum();
        let flows = eventually(PATIENCE, "the flood flows", || async {
            let replies = self.replies();
            if replies.values().sum::<usize>() >= before + AT_ONCE {
                Ok(())
            } else {
                Err(format!("{replies:?}"))
            }
        });
        flows.await.unwrap();
    }
}

/// Our processes have seats of their own.
///
/// # Attack
///
/// - Attacker: service accounts of a tenant
/// - Act: take every seat of the kube-apiserver
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_take_every_seat_of_the_kube_apiserver_do_not_keep_the_api_server_from_asking_it() {
    let scene = Scene::from_pool("seats", &PLATFORM).await;
    let (beside, ()) = tokio::join!(Bystander::new(&scene), delayed(&scene));
    let controller = &scene.platform().controllers()[0];
    let mark = controller.mark().unwrap();
    let flood = Flood::begin(&scene).await;
    flood.flows().await;
    beside.drains(&scene).await;
    flood.flows().await;
    scene.left_alone("delayed");
    // The pod does not exist, or too many at once. 503 and 504 say that the API server waited for the
    // kube-apiserver in vain.
    let replies = flood.replies();
    assert!(replies.contains_key(&422), "{replies:?}");
    assert!(replies.keys().all(|code| (400..500).contains(code)), "{replies:?}");
    let log = controller.log().unwrap();
    assert!(!log[mark..].contains("the lease could not be renewed"), "the controller kept its lease");
}
