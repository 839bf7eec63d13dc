//! The worker loop with a feature that does what a test says.

use async_trait::async_trait;

use super::*;
use crate::cluster::{
    ClusterEvent, Kind, Leadership, WorkQueue, WorkerSettings, testing::cluster_without_api,
};

/// A feature that records its keys, and fails or changes something each time if told so.
#[derive(Default)]
struct Scripted {
    queue: WorkQueue<ObjectKey>,
    fails: bool,
    changes: bool,
    reconciled: Mutex<Vec<String>>,
}

#[async_trait]
impl Feature for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Pods]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 1, ..WorkerSettings::default() }
    }

    fn handle(&self, _event: &ClusterEvent<'_>) {}

    fn resync(&self) {
        self.queue.add(key("resynced"));
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        lock(&self.reconciled).push(key.name.clone());
        match (self.fails, self.changes) {
            (true, _) => Err(CallError::Timeout { action: "x".to_owned() }),
            (_, true) => Ok(Requeue::Now),
            _ => Ok(Requeue::OnEvent),
        }
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Runs the workers of a feature for a time.
async fn run(feature: &Arc<Scripted>, cluster: &Cluster, time: Duration) {
    let (stop, mut workers) = (CancellationToken::new(), JoinSet::new());
    let spawned: Arc<dyn Feature> = Arc::clone(feature) as Arc<dyn Feature>;
    cluster.features.register(&[Arc::clone(&spawned)]);
    spawn_workers(&spawned, cluster, &mut workers, &stop);
    spawn_resync(cluster, &mut workers, &stop);
    tokio::time::sleep(time).await;
    stop.cancel();
    workers.join_all().await;
}

fn ready() -> Cluster {
    let cluster = cluster_without_api();
    cluster.readiness.set(CLOCK);
    cluster.readiness.set(Kind::Pods.watch_name());
    cluster
}

fn reconciled(feature: &Scripted) -> usize {
    lock(&feature.reconciled).len()
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_is_retried_after_growing_pauses() {
    let feature = Arc::new(Scripted { fails: true, ..Scripted::default() });
    feature.queue.add(key("a"));
    let cluster = ready();
    run(&feature, &cluster, Duration::from_mins(2)).await;
    assert!((13..=22).contains(&reconciled(&feature)), "{}", reconciled(&feature));
    assert_eq!(cluster.metrics.failures.get(), u64::try_from(reconciled(&feature)).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_each_time_lets_other_keys_come() {
    let feature = Arc::new(Scripted { changes: true, ..Scripted::default() });
    feature.queue.add(key("a"));
    feature.queue.add(key("b"));
    let worker = Worker::new(Arc::clone(&feature) as Arc<dyn Feature>, ready());
    let first = feature.queue.next().await;
    worker.work(&first).await;
    feature.queue.done(&first);
    assert_eq!(reconciled(&feature), ROUNDS);
    assert_eq!(feature.queue.next().await, key("b"));
    assert_eq!(feature.queue.next().await, key("a"), "its work is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_while_this_process_does_not_lead() {
    let feature = Arc::new(Scripted::default());
    feature.queue.add(key("a"));
    let cluster = Cluster { leadership: Leadership::standby(), ..ready() };
    run(&feature, &cluster, Duration::from_secs(10)).await;
    assert_eq!(reconciled(&feature), 0);
    assert_eq!(feature.queue.scheduled(), 1, "a lease that is renewed late finds its work");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stands_by_keeps_no_keys_and_finds_its_work_when_it_leads() {
    let (feature, cluster) = (Arc::new(Scripted::default()), ready());
    cluster.features.register(&[Arc::clone(&feature) as Arc<dyn Feature>]);
    for _ in 0..2 {
        cluster.stand_by();
        feature.queue.add(key("a"));
        assert_eq!(feature.queue.ready(), 0);
        cluster.begin_term(CancellationToken::new());
        feature.queue.add(key("b"));
        assert_eq!(feature.queue.ready(), 2, "what may need work, and what changed since");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_until_the_feature_s_kinds_are_listed_and_the_time_is_known() {
    let feature = Arc::new(Scripted::default());
    feature.queue.add(key("a"));
    let cluster = cluster_without_api();
    cluster.readiness.set(CLOCK);
    run(&feature, &cluster, Duration::from_secs(10)).await;
    assert_eq!(reconciled(&feature), 0);
    cluster.readiness.set(Kind::Pods.watch_name());
    run(&feature, &cluster, Duration::from_secs(1)).await;
    assert_eq!(*lock(&feature.reconciled), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn every_key_is_reconciled_again_after_a_while() {
    let feature = Arc::new(Scripted::default());
    run(&feature, &ready(), RESYNC_EVERY + Duration::from_secs(1)).await;
    assert_eq!(*lock(&feature.reconciled), ["resynced"]);
}
