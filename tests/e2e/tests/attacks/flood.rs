//! A flood of requests with the token of one pod.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use controlplane::eventually;
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{Bystander, PATIENCE},
};
use kube::{ResourceExt, api::ListParams};
use tokio::task::JoinSet;

use crate::tenant::{delayed, scene};

/// Connections of the flood.
const CONNECTIONS: usize = 700;
/// Pause of a connection between two requests. Each request that is let in waits for seconds, so that some
/// hundred in a second take every slot, and leave most of the CPU that the test shares with the server.
const PAUSE: Duration = Duration::from_secs(1);
/// Requests of another user while the flood lasts.
const REQUESTS: usize = 50;

/// Requests of one pod for a resourceVersion in the far future, over many connections, until this is dropped.
struct Flood {
    replies: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Flood {
    async fn begin(scene: &Scene) -> Self {
        let pod = scene.pod("bot", PodSpec::watching()).await;
        let (name, uid) = (pod.name_any(), pod.uid().unwrap());
        let bound = Some((name.as_str(), uid.as_str()));
        let token = scene.control_plane().service_account_token(scene.namespace(), "default", bound).await;
        let token = token.unwrap();
        let url = format!(
            "{}/apis/evacuation.dev/v1alpha1/namespaces/{}/selfevacuations?resourceVersion={}",
            scene.direct_url(0),
            scene.namespace(),
            i64::MAX
        );
        let authority = reqwest::Certificate::from_pem(scene.control_plane().pki().ca_pem().as_bytes());
        let authority = authority.unwrap();
        let replies = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (url, token, replies) = (url.clone(), token.clone(), Arc::clone(&replies));
            // Each client has a connection of its own. The certificates of the system, read 700 times, would
            // cost more than the flood.
            let client = reqwest::Client::builder().http1_only().tls_certs_only([authority.clone()]);
            let client = client.build().unwrap();
            tasks.spawn(async move {
                loop {
                    let reply = client.get(&url).bearer_auth(&token).send().await;
                    if let Ok(reply) = reply {
                        assert!(!reply.status().is_success(), "{reply:?}");
                        replies.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        Self { replies, _tasks: tasks }
    }

    /// Waits until as many replies have come as there are connections.
    async fn flows(&self) {
        let flows = eventually(PATIENCE, "the flood flows", || async {
            let replies = self.replies.load(Ordering::Relaxed);
            if replies >= CONNECTIONS { Ok(()) } else { Err(replies) }
        });
        flows.await.unwrap();
    }
}

/// Requests have a share for each caller.
///
/// # Attack
///
/// - Attacker: a pod with its own token
/// - Act: sends requests for revisions of the future on many connections
/// - Promise: 8
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_pods_requests_refuses_nobody_else() {
    let scene = scene("flood").await;
    let (beside, ()) = tokio::join!(Bystander::new(&scene), delayed(&scene));
    let controller = &scene.platform().controllers()[0];
    let api_server = &scene.platform().apiservers()[0];
    let marks = (controller.mark().unwrap(), api_server.mark().unwrap());
    let flood = Flood::begin(&scene).await;
    flood.flows().await;

    let other = scene.evacuations_as(&beside.drainer().user.client);
    for _ in 0..REQUESTS {
        other.list(&ListParams::default()).await.unwrap();
    }
    beside.drains(&scene).await;
    scene.left_alone("delayed");
    drop(flood);
    let (controller, api_server) = (controller.log().unwrap(), api_server.log().unwrap());
    assert!(!controller[marks.0..].contains("429"), "the controller was refused nothing");
    assert!(!api_server[marks.1..].contains("ERROR"), "the flood does not fill the log");
}
