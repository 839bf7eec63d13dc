//! The embedded store instead of an etcd.

use evacuation_e2e::{PlatformOptions, PodSpec, Scene, Storage, scene::PATIENCE};
use std::time::Duration;

use evacuation_client::{Answer, End};

use crate::worker::{self, Worker};

#[tokio::test(flavor = "multi_thread")]
async fn on_the_embedded_store_pods_are_asked_and_evicted_and_a_kill_loses_nothing() {
    let options = PlatformOptions { storage: Storage::Embedded, ..PlatformOptions::default() };
    let scene = Scene::alone("embedded", options).await;
    assert!(scene.platform().etcd().is_none());
    // Three ends: by itself, after an acceptance, and not at all.
    scene.pods.create("web-0", &PodSpec::default()).await.unwrap();
    let (refusing, _app) = worker::app(&scene, "db-0", |_| async { Answer::refuse("a backup runs") }).await;
    let worker = Worker::new(Duration::from_mins(1));
    let (_, _app) = worker::app(&scene, "job-0", worker.handler()).await;
    let plain = scene.evacuate("web-0").await;
    let refused = scene.evacuate("db-0").await;
    let delayed = scene.evacuate("job-0").await;
    scene.pods.ended(plain.name()).await.unwrap();
    scene.until_state(refused.name(), "Refused").await;
    scene.until_state(delayed.name(), "Delayed").await;
    let list = async || {
        let all = scene.pods.evacuations().list(&kube::api::ListParams::default()).await;
        all.map(|list| list.items)
    };
    let before = list().await.unwrap();
    assert_eq!(before.len(), 3);

    let server = scene.platform().apiserver();
    server.kill().unwrap();
    server.start().unwrap();
    let back = controlplane::eventually(PATIENCE, "the API is back", || async { list().await });
    assert_eq!(back.await.unwrap(), before, "nothing was lost");

    worker.finish();
    let end = tokio::time::timeout(PATIENCE, delayed.wait()).await.unwrap().unwrap();
    assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
    refused.withdraw().await.unwrap();
    let end = scene.pods.ended(refused.name()).await.unwrap();
    assert!(matches!(&end, End::Failed { reason, .. } if reason == "Canceled"), "{end}");
    assert!(scene.stays(&refusing).await);
}
