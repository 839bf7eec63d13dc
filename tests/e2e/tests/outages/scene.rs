//! One test's own platform, with a namespace.

use std::{sync::Arc, time::Duration};

use evacuation_api::Evacuation;
use evacuation_client::{Answer, EvacuationHandle, Handler, Question, Requester, Responder};
use evacuation_e2e::{Platform, PlatformOptions, PodSpec, Pods, pod_client};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;
use tokio::sync::{Mutex, MutexGuard, Notify};

/// How long something may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// One platform at a time: the bounds of the takeover are for a machine that does not start three others.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A platform and a namespace of a test's own.
pub(crate) struct Scene {
    // Dropped in this order: the namespace is removed through the platform.
    pub(crate) pods: Pods,
    pub(crate) platform: Platform,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.platform.control_plane().keep();
            eprintln!("logs: {}", self.platform.control_plane().logs().display());
        }
    }
}

impl Scene {
    pub(crate) async fn new(prefix: &str, options: PlatformOptions) -> Self {
        let alone = ALONE.lock().await;
        let platform = Platform::start(options).await.unwrap();
        let pods = platform.namespace(prefix).await.unwrap();
        Self { pods, platform, _alone: alone }
    }

    /// A pod whose app answers by watching, with that handler.
    pub(crate) async fn app(&self, name: &str, handler: impl Handler) -> Pod {
        let pod = self.pods.create(name, &PodSpec::watching()).await.unwrap();
        let client = pod_client(&self.platform, &pod).await.unwrap();
        tokio::spawn(Responder::of_pod(client).run(handler));
        pod
    }

    /// Asks a pod to move.
    pub(crate) async fn evacuate(&self, pod: &str) -> EvacuationHandle {
        let client = self.platform.client().unwrap();
        Requester::new(client, "test.evacuation.dev/outages")
            .evacuate(self.pods.namespace(), pod)
            .await
            .unwrap()
    }

    /// Waits until an Evacuation's STATE column has that word.
    pub(crate) async fn until_state(&self, evacuation: &str, word: &str) -> Evacuation {
        self.pods.until(evacuation, word, |e| evacuation_protocol::state_word(e) == word).await.unwrap()
    }

    /// When pods of the namespace were evicted with success.
    pub(crate) fn evictions(&self) -> Vec<Timestamp> {
        let events = self.platform.control_plane().audit_events().unwrap();
        events
            .into_iter()
            .filter(|event| event.namespace() == self.pods.namespace() && event.subresource() == "eviction")
            .filter(|event| event.stage() == "ResponseComplete" && event.code() == 201)
            .filter(|event| event.value().pointer("/requestObject/deleteOptions/dryRun").is_none())
            .filter_map(|event| event.received())
            .collect()
    }

    /// Whether the very pod is there and was not told to go.
    pub(crate) async fn stays(&self, pod: &Pod) -> bool {
        let found = self.pods.api().get_opt(&pod.name_any()).await.unwrap();
        found.is_some_and(|found| found.uid() == pod.uid() && found.metadata.deletion_timestamp.is_none())
    }
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
