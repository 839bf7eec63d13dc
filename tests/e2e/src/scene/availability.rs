//! Number of ready pods, or of others, at every moment, by the watch.

use std::collections::BTreeMap;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    runtime::watcher::{self, Event},
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::Scene;
use crate::pods::is_ready;

/// Notes after each change of a pod how many are ready, or as wanted otherwise.
#[derive(Debug)]
pub struct Availability {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<usize>>,
}

impl Availability {
    /// Begins with the pods of the scene.
    pub async fn watch(scene: &Scene) -> Self {
        Self::of(scene.pods.api(), "").await
    }

    /// Begins with the pods that there are, and that have these labels.
    pub async fn of(pods: Api<Pod>, labels: &str) -> Self {
        Self::counting(pods, labels, is_ready).await
    }

    /// The same, but counts the pods that are as wanted.
    pub async fn counting(pods: Api<Pod>, labels: &str, wanted: fn(&Pod) -> bool) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (begun, beginning) = oneshot::channel();
        let events = watcher::watcher(pods, watcher::Config::default().labels(labels));
        let task = tokio::spawn(async move {
            pin_mut!(events);
            let (mut counted, mut counts) = (BTreeMap::<String, bool>::new(), Vec::new());
            let mut begun = Some(begun);
            loop {
                let event = tokio::select! {
                    event = events.next() => event.unwrap().unwrap(),
                    _ = &mut stopped => return counts,
                };
                match event {
                    Event::Init => assert!(counts.is_empty(), "the watch was broken: it proves nothing"),
                    Event::InitApply(pod) | Event::Apply(pod) => {
                        counted.insert(pod.name_any(), wanted(&pod));
                    }
                    Event::Delete(pod) => {
                        counted.remove(&pod.name_any());
                    }
                    Event::InitDone => {
                        if let Some(begun) = begun.take() {
                            begun.send(()).unwrap();
                        }
                    }
                }
                if begun.is_none() {
                    counts.push(counted.values().filter(|counts| **counts).count());
                }
            }
        });
        beginning.await.unwrap();
        Self { stop, task }
    }

    /// The fewest pods that counted at any moment, and the most.
    pub async fn bounds(self) -> (usize, usize) {
        self.stop.send(()).unwrap();
        let counts = self.task.await.unwrap();
        (*counts.iter().min().unwrap(), *counts.iter().max().unwrap())
    }
}
