//! Our API server is restarted.

use evacuation_e2e::scene::PATIENCE;
use std::time::Duration;

use evacuation_client::End;
use futures::StreamExt;
use kube::{
    ResourceExt,
    runtime::{WatchStreamExt, watcher},
};

use crate::worker::{self, Worker};

#[tokio::test(flavor = "multi_thread")]
async fn restarts_and_crashes_of_the_api_server_lose_nothing_and_watches_go_on() {
    let scene = worker::scene("restart").await;
    let server = scene.platform().apiserver();
    // An informer of a third party, from the start.
    let (seen, mut states) = tokio::sync::mpsc::unbounded_channel();
    let watched = watcher(scene.pods.evacuations(), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(async |change| change.ok());
    tokio::spawn(async move {
        futures::pin_mut!(watched);
        while let Some(evacuation) = watched.next().await {
            let _ = seen.send((evacuation.name_any(), evacuation_protocol::state_word(&evacuation)));
        }
    });

    for (pod, graceful) in [("db-0", true), ("db-1", false)] {
        let worker = Worker::new(Duration::from_mins(1));
        let (_, _app) = worker::app(&scene, pod, worker.handler()).await;
        let evacuation = scene.evacuate(pod).await;
        let before = scene.until_state(evacuation.name(), "Delayed").await;
        let waiting = tokio::spawn({
            let evacuation = evacuation.clone();
            async move { evacuation.wait().await }
        });

        if graceful {
            let exit = server.terminate().await.unwrap();
            assert!(exit.success(), "it ends in good order: {exit:?}");
        } else {
            server.kill().unwrap();
        }
        server.start().unwrap();

        let after = scene.pods.until(evacuation.name(), "the API is back", |_| true).await.unwrap();
        assert_eq!(after, before, "nothing was lost");
        worker.finish();
        let end = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap();
        assert!(matches!(&end, End::Evacuated { reason, .. } if reason == "Evicted"), "{end}");
        let told = async {
            while let Some(state) = states.recv().await {
                if state == (evacuation.name().to_owned(), "Evacuated") {
                    return;
                }
            }
            panic!("the informer ended");
        };
        tokio::time::timeout(PATIENCE, told).await.unwrap();
    }
}
