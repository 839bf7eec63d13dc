//! Number of ready pods at every moment, by the watch.

use evacuation_e2e::Scene;
use std::collections::BTreeMap;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    runtime::watcher::{self, Event},
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::workload::is_ready;

/// Notes after each change of a pod how many are ready.
pub(crate) struct Availability {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<usize>>,
}

impl Availability {
    /// Begins with the pods that there are.
    pub(crate) async fn watch(scene: &Scene) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (begun, beginning) = oneshot::channel();
        let events = watcher(scene);
        let task = tokio::spawn(async move {
            pin_mut!(events);
            let (mut ready, mut counts) = (BTreeMap::<String, bool>::new(), Vec::new());
            let mut begun = Some(begun);
            loop {
                let event = tokio::select! {
                    event = events.next() => event.unwrap().unwrap(),
                    _ = &mut stopped => return counts,
                };
                match event {
                    Event::Init => assert!(counts.is_empty(), "the watch was broken: it proves nothing"),
                    Event::InitApply(pod) | Event::Apply(pod) => {
                        ready.insert(pod.name_any(), is_ready(&pod));
                    }
                    Event::Delete(pod) => {
                        ready.remove(&pod.name_any());
                    }
                    Event::InitDone => {
                        if let Some(begun) = begun.take() {
                            begun.send(()).unwrap();
                        }
                    }
                }
                if begun.is_none() {
                    counts.push(ready.values().filter(|ready| **ready).count());
                }
            }
        });
        beginning.await.unwrap();
        Self { stop, task }
    }

    /// The fewest pods that were ready at any moment, and the most.
    pub(crate) async fn bounds(self) -> (usize, usize) {
        self.stop.send(()).unwrap();
        let counts = self.task.await.unwrap();
        (*counts.iter().min().unwrap(), *counts.iter().max().unwrap())
    }
}

fn watcher(scene: &Scene) -> impl futures::Stream<Item = watcher::Result<Event<Pod>>> + Send + use<> {
    watcher::watcher(scene.pods.api(), watcher::Config::default())
}
