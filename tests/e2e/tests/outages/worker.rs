//! Apps of this suite, and the platforms that its tests disturb.

use std::{sync::Arc, time::Duration};

use evacuation_client::{Answer, Handler, Question};
use evacuation_e2e::{PlatformOptions, PodSpec, Pool, Scene, scene::Running};
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;

/// The platforms whose parts the tests stop, each in one test at a time. The second controller starts on
/// demand.
pub(crate) static PLATFORMS: Pool =
    Pool::new(2, || PlatformOptions { controllers: 2, ..PlatformOptions::default() });

/// A scene whose platform a test may disturb.
pub(crate) async fn scene(prefix: &str) -> Scene {
    Scene::from_pool(prefix, &PLATFORMS).await
}

/// Creates a pod whose app answers by watching, with that handler.
pub(crate) async fn app(scene: &Scene, name: &str, handler: impl Handler) -> (Pod, Running) {
    let pod = scene.pods.create(name, &PodSpec::watching()).await.unwrap();
    let app = scene.app(&pod, handler).await;
    (pod, app)
}

/// An app that delays by `step` at a time until its work is done, and then accepts.
#[derive(Clone)]
pub(crate) struct Worker {
    step: Duration,
    done: Arc<Notify>,
}

impl Worker {
    pub(crate) fn new(step: Duration) -> Self {
        Self { step, done: Arc::new(Notify::new()) }
    }

    /// Lets the work of one question be done.
    pub(crate) fn finish(&self) {
        self.done.notify_one();
    }

    /// The app's handler.
    pub(crate) fn handler(&self) -> impl Handler + use<> {
        let worker = self.clone();
        move |question: Question| {
            let worker = worker.clone();
            async move {
                if question.hold(worker.step, worker.done.notified()).await.is_err() {
                    eprintln!("{} ended before the work did", question.name());
                }
                Answer::accept()
            }
        }
    }
}
