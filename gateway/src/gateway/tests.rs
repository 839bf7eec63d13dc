use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicUsize},
    },
};

use chrono::Utc;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    cluster::{Interests, Outages},
    testing::call_of,
};

mod counting;
mod group;
mod outages;
mod overload;
mod report;

/// Maximum number of reads of one user at once: its share of the slots.
const SHARE: u32 = 16;
/// Time in which a call is answered.
const TIME: Duration = Duration::from_millis(800);

impl Gateway {
    /// Answers a call of the shipped webhooks.
    async fn answer(&self, call: &Call, shown: Option<Shown<'_>>) -> Answer {
        self.answer_within(TIME, call, shown).await
    }
}

/// An API whose watches deliver nothing after the first list, and whose reads take a tenth of a second.
#[derive(Default)]
struct PlayedApi {
    /// The pod as the first list shows it, and as a read shows it.
    listed: Value,
    live: Value,
    /// Other pods as the first list shows them.
    beside: Vec<Value>,
    /// True when the server's answer to a new Evacuation never comes.
    hangs: bool,
    /// HTTP code with which a new Evacuation is rejected; 0 for none.
    rejects: AtomicUsize,
    /// Name of the pod's Evacuation that cannot be read, by which a 409 rejects a new one.
    unreadable: Option<&'static str>,
    /// The Evacuations.
    evacuations: Vec<Value>,
    /// The namespaces.
    namespaces: Vec<Value>,
    /// HTTP code of an eviction.
    eviction: AtomicUsize,
    /// The Evacuation as a read shows it; null for none.
    live_evacuation: Mutex<Value>,
    /// The pod by whose UID an Evacuation was created.
    asked: Mutex<Option<Value>>,
    reads: AtomicU32,
    in_progress: AtomicU32,
    most: AtomicU32,
    /// HTTP code of a read of the pod.
    code: AtomicUsize,
    /// Other objects and lists as reads show them, by path.
    others: HashMap<&'static str, Value>,
    /// The path whose reads are never answered.
    slow: Option<&'static str>,
}

/// Returns the pod `shop/db-0` with that UID, which registers `self` or nobody.
fn pod(uid: &str, registered: bool) -> Value {
    let annotations =
        if registered { json!({"evacuation.dev/responders": "[{\"name\":\"self\"}]"}) } else { json!({}) };
    json!({
        "metadata": {"name": "db-0", "namespace": "shop", "uid": uid, "resourceVersion": uid, "annotations": annotations},
        "spec": {"nodeName": "node-a", "terminationGracePeriodSeconds": 30, "containers": []},
        "status": {"phase": "Running"},
    })
}

impl PlayedApi {
    async fn reply(&self, method: Method, path: &str, query: &str, body: Body) -> (u16, Value) {
        let list = |items: Value| (200, json!({"metadata": {"resourceVersion": "5"}, "items": items}));
        match (method, path) {
            (Method::GET, _) if query.contains("watch=true") => std::future::pending().await,
            (Method::GET, "/api/v1/pods") => {
                let pods: Vec<_> = self.beside.iter().chain([&self.listed]).collect();
                list(json!(pods))
            }
            (Method::GET, "/apis/evacuation.dev/v1alpha1/namespaces/shop/evacuations/db-0-x") => {
                match &*self.live_evacuation.lock().unwrap() {
                    Value::Null => {
                        let reason = "NotFound";
                        (404, json!({"kind": "Status", "status": "Failure", "code": 404, "reason": reason}))
                    }
                    live => (200, live.clone()),
                }
            }
            (Method::GET, path) if self.slow == Some(path) => std::future::pending().await,
            (Method::GET, path) if let Some(other) = self.others.get(path) => (200, other.clone()),
            (Method::GET, "/api/v1/namespaces") => list(json!(self.namespaces)),
            (Method::POST, "/api/v1/namespaces/shop/pods/db-0/eviction") => {
                match self.eviction.load(Ordering::Relaxed) {
                    0 => std::future::pending().await,
                    code => {
                        let causes =
                            if code == 429 { json!([{"reason": "DisruptionBudget"}]) } else { json!([]) };
                        let details = json!({"causes": causes});
                        let status =
                            json!({"kind": "Status", "status": "Failure", "code": code, "details": details});
                        (code.try_into().unwrap(), status)
                    }
                }
            }
            (Method::GET, "/apis/evacuation.dev/v1alpha1/evacuations") => list(json!(self.evacuations)),
            (Method::GET, "/api/v1/namespaces/shop/pods/db-0") => {
                self.reads.fetch_add(1, Ordering::Relaxed);
                let now = self.in_progress.fetch_add(1, Ordering::Relaxed) + 1;
                self.most.fetch_max(now, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.in_progress.fetch_sub(1, Ordering::Relaxed);
                match self.code.load(Ordering::Relaxed) {
                    0 => (200, self.live.clone()),
                    code => (
                        code.try_into().unwrap(),
                        json!({"kind": "Status", "status": "Failure", "code": code}),
                    ),
                }
            }
            (Method::GET, path) if path.starts_with("/api/v1/namespaces/tenant-") => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                (404, json!({"kind": "Status", "status": "Failure", "code": 404}))
            }
            (Method::POST, "/apis/evacuation.dev/v1alpha1/namespaces/shop/evacuations") => {
                if self.hangs {
                    std::future::pending::<()>().await;
                }
                if let code @ 1.. = self.rejects.load(Ordering::Relaxed) {
                    let message = "metadata.generateName: Invalid value";
                    let holder = self.unreadable.filter(|_| code == 409);
                    let cause = |name| json!({"reason": "ActiveEvacuationUnreadable", "message": name});
                    let causes: Vec<_> = holder.into_iter().map(cause).collect();
                    return (
                        code.try_into().unwrap(),
                        json!({
                            "kind": "Status", "status": "Failure", "code": code, "message": message,
                            "details": {"causes": causes},
                        }),
                    );
                }
                let bytes = body.collect_bytes().await.unwrap();
                let mut created: Value = serde_json::from_slice(&bytes).unwrap();
                *self.asked.lock().unwrap() = Some(created["spec"]["target"]["pod"].clone());
                created["metadata"] =
                    json!({"name": "db-0-x", "namespace": "shop", "uid": "e", "resourceVersion": "9"});
                (201, created)
            }
            (Method::GET, _) => list(json!([])),
            _ => (404, json!({"kind": "Status", "status": "Failure", "code": 404})),
        }
    }
}

/// Returns a gateway whose cache has the listed pod.
async fn gateway(api: PlayedApi) -> (Arc<Gateway>, Arc<PlayedApi>) {
    gateway_in(api, Arc::default()).await
}

/// Returns the same in that outage.
async fn gateway_in(api: PlayedApi, outages: Arc<Outages>) -> (Arc<Gateway>, Arc<PlayedApi>) {
    let api = Arc::new(api);
    let played = Arc::clone(&api);
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&played);
        let (parts, body) = request.into_parts();
        async move {
            let query = parts.uri.query().unwrap_or_default();
            let (code, reply) = api.reply(parts.method, parts.uri.path(), query, body).await;
            let reply = Body::from(serde_json::to_vec(&reply).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code).body(reply).unwrap())
        }
    });
    let client = Client::new(service, "shop");
    let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
    let cluster = Cluster::start(&client, &Arc::<Interests>::default(), &outages, &tasks, &shutdown);
    while !cluster.not_synced().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let metrics = Arc::new(Metrics::default());
    let gauges = metrics.configuration.clone();
    let gateway = Gateway {
        longest_hold: chrono::TimeDelta::seconds(900),
        cluster,
        configuration: ConfigurationFile::start(None, gauges, shutdown).await.unwrap(),
        asker: Asker::new(client.clone()),
        ledger: Ledger::new(client.clone()),
        surplus: SurplusReader::new(client.clone()),
        rights: Rights::new(client),
        limiter: Limiter::default(),
        events: EventSink::new(metrics.events_dropped.clone()),
        metrics,
        trusted: Trusted { users: Vec::new(), namespace: "evacuation-system".to_owned() },
        tokens: Arc::default(),
        attestations: None,
        closing: AtomicBool::new(false),
    };
    (Arc::new(gateway), api)
}

fn evict() -> Call {
    call_of("alice", Operation::Evict)
}

/// The cache of pods is as old as this afterwards.
async fn watch_lags() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

/// # Attack
///
/// - Attacker: a network that holds up the gateway's watch of pods
/// - Act: hides the successor of a pod that has ended, or its new annotation, from the gateway
/// - Promise: 10, 11
#[tokio::test(start_paused = true)]
async fn an_eviction_that_would_pass_by_a_stale_pod_is_judged_by_the_live_one() {
    let mut ended = pod("1", true);
    ended["status"]["phase"] = json!("Failed");
    for listed in [ended, pod("1", false)] {
        let (gateway, api) =
            gateway(PlayedApi { listed, live: pod("2", true), ..PlayedApi::default() }).await;
        watch_lags().await;
        let answer = gateway.answer(&evict(), None).await;
        assert!(matches!(answer, Answer::Wait(_)), "{answer:?}");
        assert_eq!(api.asked.lock().unwrap().take(), Some(json!({"name": "db-0", "uid": "2"})));
    }
}

/// # Attack
///
/// - Attacker: a user who may evict pods
/// - Act: names a resourceVersion that the pod no longer has, which the eviction API replaces by its own for
///   an unready pod of a budget
/// - Promise: 11, 12
#[tokio::test(start_paused = true)]
async fn a_call_for_a_state_that_the_live_pod_does_not_have_gets_a_409_and_asks_nobody() {
    let versions = |listed: &str, live: &str, registered| {
        let with = |version: &str| {
            let mut pod = pod("1", registered);
            pod["metadata"]["resourceVersion"] = json!(version);
            pod
        };
        PlayedApi { listed: with(listed), live: with(live), ..PlayedApi::default() }
    };
    // The versions in the cache and live, the wanted one, the code of a read, whether the pod has responders,
    // and the code of the reply.
    for (listed, live, wanted, read, registered, expected) in [
        ("7", "7", "7", 0, true, 429),
        ("7", "7", "6", 0, true, 409),
        ("7", "7", "8", 0, true, 409),
        ("7", "7", "no version", 0, true, 409),
        // The cache is stale.
        ("6", "7", "7", 0, true, 429),
        ("6", "8", "7", 0, true, 409),
        ("6", "7", "6", 0, true, 409),
        // A pod that cannot be read opens no way.
        ("7", "7", "6", 503, true, 429),
        ("7", "7", "6", 0, false, 0),
    ] {
        let (gateway, api) = gateway(versions(listed, live, registered)).await;
        api.code.store(read, Ordering::Relaxed);
        let call = Call { resource_version: Some(wanted.to_owned()), ..evict() };
        let code = match gateway.answer(&call, None).await {
            Answer::Wait(reply) => reply.code,
            Answer::Pass(Pass::Unregistered) => 0,
            other => panic!("{other:?}"),
        };
        assert_eq!(code, expected, "{listed} {live} {wanted} {read}");
        assert_eq!(api.asked.lock().unwrap().is_some(), code == 429, "{listed} {live} {wanted} {read}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_judged_by_the_cache_only_in_the_state_that_the_review_shows() {
    let (gateway, api) =
        gateway(PlayedApi { listed: pod("1", false), live: pod("2", true), ..PlayedApi::default() }).await;
    let delete = call_of("alice", Operation::Delete);
    let shown = |uid, resource_version| Some(Shown { uid, resource_version });
    assert_eq!(gateway.answer(&delete, shown("1", "1")).await, Answer::Pass(Pass::Unregistered));
    assert_eq!(api.reads.load(Ordering::Relaxed), 0);
    let answer = gateway.answer(&delete, shown("1", "2")).await;
    assert!(matches!(answer, Answer::Wait(_)), "{answer:?}");
    assert_eq!(api.reads.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_no_read_confirms_counts_as_unasked() {
    let (gateway, api) =
        gateway(PlayedApi { listed: pod("1", false), live: pod("1", false), ..PlayedApi::default() }).await;
    watch_lags().await;
    assert_eq!(gateway.answer(&evict(), None).await, Answer::Pass(Pass::Unregistered));
    api.code.store(500, Ordering::Relaxed);
    assert_eq!(gateway.answer(&evict(), None).await, Answer::Unasked(Unasked::PodUnread));
    let counted = r#"evacuation_gateway_passed_unasked_total{webhook="evict",reason="pod_unread"} 1"#;
    assert!(gateway.metrics.text().contains(counted), "{}", gateway.metrics.text());
}

/// # Attack
///
/// - Attacker: a kube-apiserver that fails while it is replaced
/// - Act: answers no read of the pod just when a deletion shows a newer state of it than the cache has
/// - Promise: 11
#[tokio::test(start_paused = true)]
async fn an_app_that_is_being_asked_holds_a_deletion_whose_pod_cannot_be_read() {
    let at = |seconds| Utc::now() + TimeDelta::seconds(seconds);
    let responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
        "activeTime": at(-5), "answer": "Delay", "answerTime": at(-5), "delayUntil": at(300),
    });
    let active = json!({
        "metadata": {"name": "db-0-x", "namespace": "shop", "uid": "e"},
        "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": []},
        "status": {"responders": [responder]},
    });
    let (listed, live) = (pod("1", true), pod("1", true));
    let (gateway, api) =
        gateway(PlayedApi { listed, live, evacuations: vec![active], ..PlayedApi::default() }).await;
    api.code.store(503, Ordering::Relaxed);
    let newer = Some(Shown { uid: "1", resource_version: "2" });
    let answer = gateway.answer(&call_of("alice", Operation::Delete), newer).await;
    assert_eq!(api.reads.load(Ordering::Relaxed), 1);
    let Answer::Wait(reply) = answer else { panic!("{answer:?}") };
    assert_eq!(reply.cause, "EvacuationInProgress");
}

/// # Attack
///
/// - Attacker: a caller whose request makes a question that the evacuation API rejects
/// - Act: evicts a pod whose app was never asked
/// - Promise: 11
#[tokio::test(start_paused = true)]
async fn a_question_that_the_api_rejects_opens_no_way_to_an_app() {
    for code in [400, 403, 409, 413, 422] {
        let (listed, live) = (pod("1", true), pod("1", true));
        let (gateway, _) =
            gateway(PlayedApi { listed, live, rejects: AtomicUsize::new(code), ..PlayedApi::default() })
                .await;
        let Answer::Wait(reply) = gateway.answer(&evict(), None).await else { panic!("{code}: it passed") };
        assert_eq!((reply.code, reply.cause), (429, "QuestionRejected"), "{code}");
        assert!(reply.message.contains("rejects the question"), "{}", reply.message);
        assert!(reply.message.contains("generateName: Invalid value"), "{}", reply.message);
        let counted = "evacuation_gateway_questions_rejected_total 1";
        assert!(gateway.metrics.text().contains(counted), "{}", gateway.metrics.text());
        assert!(!gateway.metrics.text().contains("passed_unasked_total{"), "{}", gateway.metrics.text());
    }
}

/// # Attack
///
/// - Attacker: a tenant that evicts its own pods, which have no responders
/// - Act: sends many evictions at once, each of which needs a read of its pod
/// - Promise: 8
#[tokio::test(start_paused = true)]
async fn evictions_of_pods_without_responders_cost_no_read_while_the_cache_is_fresh_and_few_at_once_otherwise()
 {
    let (gateway, api) =
        gateway(PlayedApi { listed: pod("1", false), live: pod("1", false), ..PlayedApi::default() }).await;
    for _ in 0..200 {
        assert_eq!(gateway.answer(&evict(), None).await, Answer::Pass(Pass::Unregistered));
    }
    assert_eq!(api.reads.load(Ordering::Relaxed), 0);
    watch_lags().await;
    let flood = (0..200).map(|_| {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { gateway.answer(&evict(), None).await })
    });
    let flood: Vec<_> = flood.collect();
    let beside = gateway.answer(&call_of("bob", Operation::Evict), None).await;
    assert_eq!(beside, Answer::Pass(Pass::Unregistered), "another user has a share of its own");
    for answer in flood {
        let answer = answer.await.unwrap();
        let busy = matches!(&answer, Answer::Wait(reply) if reply.cause == "TooManyCalls");
        assert!(busy || answer == Answer::Pass(Pass::Unregistered), "{answer:?}");
    }
    let most = api.most.load(Ordering::Relaxed);
    assert!(most <= SHARE + 1, "{most}");
}

/// # Attack
///
/// - Attacker: an outage that begins in the moment in which an app is asked
/// - Act: keeps the question from the gateway's watch, so that the next call passes as for an app that was
///   not asked
/// - Promise: 11
#[tokio::test(start_paused = true)]
async fn the_gateway_knows_its_own_question_although_the_watch_did_not_deliver_it() {
    let (listed, live) = (pod("1", true), pod("1", true));
    let (gateway, api) = gateway(PlayedApi { listed, live, ..PlayedApi::default() }).await;
    assert!(matches!(gateway.answer(&evict(), None).await, Answer::Wait(_)));
    api.rejects.store(503, Ordering::Relaxed);
    let other = call_of("bob", Operation::Evict);
    let answer = gateway.answer(&other, None).await;
    let Answer::Wait(reply) = answer else { panic!("{answer:?}") };
    assert_eq!(reply.cause, "EvacuationInProgress");
}

/// # Attack
///
/// - Attacker: a network that keeps the connection of the watch of Evacuations open and delivers nothing
/// - Act: shows an Evacuation that its app accepted, and not that it was canceled and another one refused
/// - Promise: 11
#[tokio::test(start_paused = true)]
async fn an_answer_by_which_a_call_passes_is_read_live() {
    let of = |version: &str, conditions: Value| {
        json!({
            "metadata": {"name": "db-0-x", "namespace": "shop", "uid": "e", "resourceVersion": version},
            "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": []},
            "status": {"responders": [], "conditions": conditions},
        })
    };
    let api = || PlayedApi {
        listed: pod("1", true),
        live: pod("1", true),
        evacuations: vec![of("3", json!([]))],
        ..PlayedApi::default()
    };
    let (current, played) = gateway(api()).await;
    *played.live_evacuation.lock().unwrap() = of("3", json!([]));
    assert_eq!(current.answer(&evict(), None).await, Answer::Pass(Pass::RespondersDone));

    let canceled = json!([{
        "type": "Finished", "status": "True", "reason": "Canceled", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    // A restored backup can give the version that is known to another state.
    for live in [of("4", canceled.clone()), of("3", canceled), Value::Null] {
        let (stale, played) = gateway(api()).await;
        *played.live_evacuation.lock().unwrap() = live.clone();
        let answer = stale.answer(&evict(), None).await;
        assert!(matches!(answer, Answer::Wait(_)), "{live}: {answer:?}");
        assert!(played.asked.lock().unwrap().is_some(), "the app is asked");
    }
}
