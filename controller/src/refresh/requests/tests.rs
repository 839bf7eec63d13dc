use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::TimeDelta;
use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, client::Body, core::PartialObjectMeta};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower_test::mock;

use super::{super::RefreshOptions, *};
use crate::{
    cluster::{CLOCK, EventSink, Feature, Kind, Requeue, lock, required_names, spawn_workers},
    refresh::Refresher,
};

/// The controller against an API that has one pod in a crash loop, and records what it is asked.
struct Fixture {
    cluster: Cluster,
    refresher: Arc<Refresher>,
    server: Arc<Mutex<Server>>,
}

#[derive(Default)]
struct Server {
    /// The pod as a live read shows it.
    pod: Value,
    /// The Evacuations as a live list shows them.
    evacuations: Vec<Value>,
    /// Answer to a write, if it is not 200 with the object.
    refusal: Option<(u16, &'static str)>,
    asked: Vec<String>,
    written: Vec<Value>,
}

impl Server {
    fn answer(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let last = path.rsplit('/').next().unwrap_or_default();
        self.asked.push(format!("{method} {last}"));
        match method {
            "POST" if last == "selfsubjectreviews" => {
                (201, json!({"status": {"userInfo": {"username": "controller"}}}))
            }
            "GET" if path.contains("/pods/") && self.pod.is_null() => failure(404, "NotFound"),
            "GET" if path.contains("/pods/") => (200, self.pod.clone()),
            "GET" if last == "asked" => (200, evacuation("asked", "db-0")),
            "GET" => (200, json!({"metadata": {}, "items": self.evacuations})),
            _ => {
                self.written.push(body.clone());
                if let Some((code, cause)) = self.refusal {
                    return failure(code, cause);
                }
                let mut stored = body;
                stored["metadata"]["name"] = json!("made");
                stored["metadata"]["resourceVersion"] = json!("100");
                (200, stored)
            }
        }
    }
}

fn failure(code: u16, cause: &str) -> (u16, Value) {
    let details = json!({"name": "asked", "causes": [{"reason": cause, "message": "said so"}]});
    (
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": cause, "message": "no", "details": details}),
    )
}

fn pod(version: &str, state: &str) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": "db-0", "uid": "p", "resourceVersion": version,
            "annotations": {"refresh.evacuation.dev/after-restarts": "5"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false,
            "restartCount": 7, "state": {"waiting": {"reason": state}}}]},
    })
}

fn evacuation(name: &str, target: &str) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "50",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"refresh.evacuation.dev/owner": "s"}},
        "spec": {"target": {"pod": {"name": target, "uid": "p"}},
                 "requesters": [
                     {"owner": "controller", "name": "refresh.evacuation.dev/crash-loop"},
                     {"owner": "mallory", "name": "refresh.evacuation.dev/crash-loop"},
                 ]},
    })
}

impl Fixture {
    fn new(leadership: Leadership) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let client = Client::new(service, "default");
        let server = Arc::new(Mutex::new(Server { pod: pod("5", "CrashLoopBackOff"), ..Server::default() }));
        let answering = Arc::clone(&server);
        tokio::spawn(async move {
            while let Some((request, send)) = handle.next_request().await {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&bytes).unwrap_or_default();
                let (code, answer) = lock(&answering).answer(parts.method.as_str(), parts.uri.path(), body);
                let body = Body::from(serde_json::to_vec(&answer).unwrap());
                send.send_response(Response::builder().status(code).body(body).unwrap());
            }
        });
        let options = RefreshOptions {
            refresh: true,
            refresh_backoff: TimeDelta::minutes(10),
            refresh_longest_backoff: TimeDelta::hours(6),
            refresh_settled_after: TimeDelta::minutes(30),
            refresh_recovered_after: TimeDelta::minutes(1),
            refresh_per_minute: 10,
        };
        let cluster = Cluster::new(client, leadership, EventSink::default());
        let refresher = Refresher::new(&cluster, &options);
        cluster.features.register(&[Arc::clone(&refresher) as Arc<dyn Feature>]);
        cluster.view.apply::<Pod>(serde_json::from_value(pod("5", "CrashLoopBackOff")).unwrap());
        Self { cluster, refresher, server }
    }

    /// Decides on what the watches showed, and acts.
    async fn act(&self) -> Result<Requeue, CallError> {
        self.refresher.reconcile(&ObjectKey::new("", "ns")).await
    }

    fn asked(&self) -> Vec<String> {
        lock(&self.server).asked.clone()
    }

    fn counted(&self, outcome: &'static str) -> u64 {
        self.refresher.requests().refreshes.get_or_create(&[("outcome", outcome)]).get()
    }
}

/// Requests that precede a question, and the question.
const READS: [&str; 2] = ["GET db-0", "GET evacuations"];
const ASKS: [&str; 3] = ["GET db-0", "GET evacuations", "POST evacuations"];

#[tokio::test]
async fn a_pod_is_asked_after_a_live_read_and_is_known_to_be_asked_at_once() {
    let fixture = Fixture::new(Leadership::alone());
    fixture.act().await.unwrap();
    assert_eq!(fixture.asked(), ASKS);
    let written = lock(&fixture.server).written[0].clone();
    assert_eq!(written["metadata"]["generateName"], "db-0-");
    assert_eq!(written["metadata"]["labels"], json!({"refresh.evacuation.dev/owner": "s"}));
    assert_eq!(written["metadata"]["annotations"], json!({"refresh.evacuation.dev/attempt": "1"}));
    assert_eq!(written["spec"]["target"]["pod"], json!({"name": "db-0", "uid": "p"}));
    assert_eq!(written["spec"]["ttlSecondsAfterFinished"], 30 * 3600);
    let entry = &written["spec"]["requesters"][0];
    assert_eq!((&entry["onRefusal"], &entry["reason"]), (&json!("GiveUp"), &json!("CrashLoopBackOff")));
    let index = fixture.cluster.view.index();
    assert!(index.evacuation(&ObjectKey::new("ns", "made")).is_some());
}

#[tokio::test]
async fn what_the_watches_have_not_shown_yet_keeps_a_pod_from_being_asked() {
    let asked_before = Fixture::new(Leadership::alone());
    lock(&asked_before.server).evacuations = vec![evacuation("by-another-leader", "db-1")];
    let recovered = Fixture::new(Leadership::alone());
    lock(&recovered.server).pod = pod("6", "");
    let gone = Fixture::new(Leadership::alone());
    lock(&gone.server).pod = Value::Null;
    for fixture in [asked_before, recovered, gone] {
        fixture.act().await.unwrap();
        assert_eq!(fixture.asked(), READS);
    }
}

#[tokio::test]
async fn a_pod_that_somebody_else_asked_or_that_is_gone_is_no_failure() {
    for (refusal, counted) in
        [((409, "ActiveEvacuationExists"), 1), ((409, "WrongPod"), 0), ((422, "FieldValueNotFound"), 0)]
    {
        let fixture = Fixture::new(Leadership::alone());
        lock(&fixture.server).refusal = Some(refusal);
        fixture.act().await.unwrap();
        assert_eq!(fixture.asked(), ASKS);
        assert_eq!(fixture.counted("already_asked"), counted, "{refusal:?}");
    }
    let forbidden = Fixture::new(Leadership::alone());
    lock(&forbidden.server).refusal = Some((403, "Forbidden"));
    assert_eq!(forbidden.act().await.unwrap_err().code(), 403);
}

#[tokio::test]
async fn a_request_that_fails_does_not_keep_others_from_being_made() {
    let fixture = Fixture::new(Leadership::alone());
    let mut other = pod("6", "CrashLoopBackOff");
    other["metadata"]["name"] = json!("web-0");
    other["metadata"]["uid"] = json!("w");
    other["metadata"]["ownerReferences"][0]["uid"] = json!("z");
    fixture.cluster.view.apply::<Pod>(serde_json::from_value(other).unwrap());
    lock(&fixture.server).refusal = Some((403, "Forbidden"));
    let done = fixture.act().await;
    assert_eq!(done.unwrap_err().code(), 403);
    let asked = fixture.asked();
    assert_eq!(asked.iter().filter(|asked| *asked == "GET web-0").count(), 1, "{asked:?}");
}

#[tokio::test]
async fn a_process_that_does_not_lead_asks_nobody() {
    let fixture = Fixture::new(Leadership::standby());
    assert!(matches!(fixture.act().await, Err(CallError::NotLeading(_))));
    assert_eq!(fixture.asked(), READS);
}

#[tokio::test]
async fn a_withdrawal_takes_back_its_own_entry_only_and_may_come_too_late() {
    let opted_out = || {
        let mut pod = pod("6", "CrashLoopBackOff");
        pod["metadata"]["annotations"] = json!({"refresh.evacuation.dev/enabled": "false"});
        pod
    };
    for refusal in
        [None, Some((409, "EvictionInFlight")), Some((409, "EvictionAccepted")), Some((404, "NotFound"))]
    {
        let fixture = Fixture::new(Leadership::alone());
        fixture.cluster.view.apply::<Pod>(serde_json::from_value(opted_out()).unwrap());
        let asked: Evacuation = serde_json::from_value(evacuation("asked", "db-0")).unwrap();
        fixture.cluster.view.apply(asked);
        lock(&fixture.server).refusal = refusal;
        fixture.act().await.unwrap();
        assert_eq!(fixture.asked(), ["POST selfsubjectreviews", "GET asked", "PUT asked"]);
        let written = lock(&fixture.server).written[0].clone();
        assert_eq!(written["metadata"]["resourceVersion"], "50");
        let left = json!([{"owner": "mallory", "name": "refresh.evacuation.dev/crash-loop"}]);
        assert_eq!(written["spec"]["requesters"], left);
    }
}

#[tokio::test]
async fn how_a_refresh_ended_is_counted_once() {
    for (kind, reason, outcome) in [
        ("Evacuated", "Evicted", "evacuated"),
        ("Failed", "Refused", "refused"),
        ("Failed", "Canceled", "canceled"),
        ("Failed", "DeadlineGaveUp", "failed"),
    ] {
        let fixture = Fixture::new(Leadership::alone());
        let mut value = evacuation("asked", "db-0");
        fixture.cluster.view.apply::<Evacuation>(serde_json::from_value(value.clone()).unwrap());
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        value["status"] = json!({"conditions": [condition(kind), condition("Finished")]});
        for version in ["51", "52"] {
            value["metadata"]["resourceVersion"] = json!(version);
            fixture.cluster.view.apply::<Evacuation>(serde_json::from_value(value.clone()).unwrap());
        }
        assert_eq!(fixture.counted(outcome), 1, "{reason}");
    }
}

impl Fixture {
    /// Starts the workers of the feature.
    fn spawn(&self, stop: &CancellationToken) -> JoinSet<()> {
        let (feature, mut workers) = (Arc::clone(&self.refresher) as Arc<dyn Feature>, JoinSet::new());
        spawn_workers(&feature, &self.cluster, &mut workers, stop);
        workers
    }

    fn list(&self, kinds: &[Kind]) {
        for kind in kinds {
            self.cluster.readiness.set(kind.watch_name());
        }
        self.cluster.readiness.set(CLOCK);
    }
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_asked_before_namespaces_and_replica_sets_were_listed_and_nothing_else_waits_for_them() {
    let fixture = Fixture::new(Leadership::alone());
    let namespace = json!({"metadata": {"name": "ns", "uid": "n", "resourceVersion": "1"}});
    fixture.cluster.view.apply::<PartialObjectMeta<Namespace>>(serde_json::from_value(namespace).unwrap());
    fixture.list(&[Kind::Evacuations, Kind::Pods]);
    assert_eq!(required_names(&[Arc::clone(&fixture.refresher) as Arc<dyn Feature>]), [CLOCK]);
    let stop = CancellationToken::new();
    let workers = fixture.spawn(&stop);
    // The clock stands still, so this is over when nobody has anything left to do.
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(fixture.asked(), [""; 0]);
    fixture.list(&[Kind::Namespaces, Kind::ReplicaSets]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.asked(), ASKS);
    stop.cancel();
    workers.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_is_made_again_later_and_later() {
    let fixture = Fixture::new(Leadership::alone());
    lock(&fixture.server).refusal = Some((403, "Forbidden"));
    fixture.list(fixture.refresher.watches());
    fixture.refresher.queue().add(ObjectKey::new("", "ns"));
    let stop = CancellationToken::new();
    let workers = fixture.spawn(&stop);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let tries = fixture.asked().iter().filter(|asked| *asked == "POST evacuations").count();
    assert!((5..=8).contains(&tries), "{tries}");
    lock(&fixture.server).refusal = None;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(fixture.cluster.view.index().evacuation(&ObjectKey::new("ns", "made")).is_some());
    stop.cancel();
    workers.join_all().await;
}
