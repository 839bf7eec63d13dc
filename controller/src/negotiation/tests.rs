//! The controller against an API that keeps one Evacuation by the protocol's own rules, and records what it
//! is asked.

use std::sync::Mutex;

use chrono::{TimeDelta, Utc};
use evacuation_api::{Answer, EvacuationResponse, ResponderState, ReviewAction};
use evacuation_protocol::{
    LivePod, Reachability, answer, begin, check_status_update, fix_responders, registered_responders,
};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};
use tower_test::mock::{self, SendResponse};

use super::{evictor::TurnEnd, push::testing::accept_once, *};
use crate::cluster::Worker;

type Fault = (u16, Value);

/// API that records its requests.
#[derive(Default)]
struct Server {
    evacuation: Option<Evacuation>,
    pod: Option<Pod>,
    node: Option<Node>,
    /// Number of answers of responders that are not recorded at first.
    unrecorded: usize,
    /// Answer to the next request of that kind, once, instead of the usual one.
    fault: Option<(&'static str, Fault)>,
    asked: Vec<String>,
    bodies: Vec<Value>,
}

struct Fixture {
    negotiation: Arc<Negotiation>,
    worker: Worker,
    cluster: Cluster,
    server: Arc<Mutex<Server>>,
}

fn failure(code: u16, cause: &str, retry_after: u32) -> Fault {
    let details =
        json!({"causes": [{"reason": cause, "message": "said so"}], "retryAfterSeconds": retry_after});
    (
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": cause, "message": "no", "details": details}),
    )
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let last = path.rsplit('/').next().unwrap_or_default();
        self.asked.push(format!("{method} {last}"));
        self.bodies.push(body.clone());
        let asked = self.asked.last();
        if let Some((_, fault)) = self.fault.take_if(|(kind, _)| asked.is_some_and(|asked| asked == kind)) {
            return fault;
        }
        match (method.as_str(), last) {
            ("PUT", "status") => self.write(body),
            ("POST", "respond") => self.respond(body),
            ("POST", "eviction") => (201, json!({"kind": "Status", "status": "Success", "code": 201})),
            ("GET", "p") if path.contains("/pods/") => match &self.pod {
                Some(pod) => (200, serde_json::to_value(pod).unwrap()),
                None => failure(404, "NotFound", 0),
            },
            ("GET", "n") if path.contains("/nodes/") => match &self.node {
                Some(node) => (200, serde_json::to_value(node).unwrap()),
                None => failure(404, "NotFound", 0),
            },
            ("GET", _) => (200, serde_json::to_value(&self.evacuation).unwrap()),
            _ => failure(405, "MethodNotAllowed", 0),
        }
    }

    /// An answer of a responder, as the API server takes it.
    fn respond(&mut self, body: Value) -> (u16, Value) {
        if self.unrecorded > 0 {
            self.unrecorded -= 1;
            return failure(503, "ServiceUnavailable", 0);
        }
        let response: EvacuationResponse = serde_json::from_value(body.clone()).unwrap();
        let old = self.evacuation.clone().unwrap();
        let (status, _) = answer(&old, &response.spec, Utc::now()).unwrap();
        let mut new = Evacuation { status: Some(status), ..old };
        touch(&mut new);
        self.evacuation = Some(new);
        (201, body)
    }

    /// A write of the status, as the API server takes it.
    fn write(&mut self, body: Value) -> (u16, Value) {
        let proposed: Evacuation = serde_json::from_value(body).unwrap();
        let old = self.evacuation.clone().unwrap();
        if proposed.metadata.resource_version != old.metadata.resource_version {
            return failure(409, "Conflict", 0);
        }
        match check_status_update(&old, proposed.status.unwrap(), Utc::now()) {
            Ok(status) => {
                let mut new = Evacuation { status: Some(status), ..old };
                touch(&mut new);
                self.evacuation = Some(new.clone());
                (200, serde_json::to_value(new).unwrap())
            }
            Err(errors) => panic!("the server refuses the write: {errors:?}"),
        }
    }
}

/// Gives an object its next resourceVersion.
fn touch(evacuation: &mut Evacuation) {
    let version: u64 = evacuation.metadata.resource_version.as_ref().unwrap().parse().unwrap();
    evacuation.metadata.resource_version = Some((version + 1).to_string());
}

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "p1", "resourceVersion": "5", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                                          "state": {"running": {}}}]},
    }))
    .unwrap()
}

/// The pod of an app that answers for itself.
fn app() -> Pod {
    let annotation = (evacuation_api::RESPONDERS_ANNOTATION.to_owned(), r#"[{"name":"self"}]"#.to_owned());
    let mut app = pod();
    app.metadata.annotations = Some([annotation].into());
    app
}

/// An Evacuation of a pod without responders, with these further fields in its status.
fn evacuation(status: &Value) -> Evacuation {
    evacuation_of(&pod(), status)
}

/// An Evacuation of that pod, as the server creates it, with these further fields in its status.
fn evacuation_of(pod: &Pod, status: &Value) -> Evacuation {
    let mut evacuation: Evacuation = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "e", "uid": "e1", "resourceVersion": "10", "generation": 1},
        "spec": {"target": {"pod": {"name": "p", "uid": "p1"}}, "requesters": [{"name": "a.b/c"}]},
    }))
    .unwrap();
    let (spec, now) = (&evacuation.spec, Utc::now());
    let mut created = begin(spec, "ann", &[], now);
    fix_responders(
        &mut created,
        &spec.requesters,
        &LivePod::of(pod),
        &registered_responders(pod, []),
        false,
        now,
    );
    let mut value = serde_json::to_value(created).unwrap();
    value.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    evacuation.status = Some(serde_json::from_value(value).unwrap());
    evacuation
}

/// An attempt is recorded, made so many seconds ago.
fn in_flight(seconds: i64) -> Value {
    let time = evacuation_api::Timestamp(Utc::now() - TimeDelta::seconds(seconds));
    json!({"responders": [], "observedGeneration": 1,
           "eviction": {"attempts": 1, "inFlight": true, "lastAttemptTime": time}})
}

impl Fixture {
    fn new(evacuation: Evacuation, leadership: Leadership) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let client = Client::new(service, "default");
        let server = Arc::new(Mutex::new(Server {
            evacuation: Some(evacuation.clone()),
            pod: Some(pod()),
            ..Server::default()
        }));
        let answering = Arc::clone(&server);
        tokio::spawn(async move {
            while let Some((request, send)) = handle.next_request().await {
                reply(&answering, request, send).await;
            }
        });
        let cluster = Cluster::new(client, leadership, EventSink::default());
        let pusher = Pusher::new(&cluster, vec!["127.0.0.0/8".parse().unwrap()], 4).unwrap();
        let negotiation = Negotiation::new(&cluster, pusher, 1);
        cluster.features.register(&[Arc::clone(&negotiation) as Arc<dyn Feature>]);
        cluster.view.apply(pod());
        cluster.view.apply(evacuation);
        Self {
            worker: Worker::new(Arc::clone(&negotiation) as Arc<dyn Feature>, cluster.clone()),
            negotiation,
            cluster,
            server,
        }
    }

    fn leading(evacuation: Evacuation) -> Self {
        Self::new(evacuation, Leadership::alone())
    }

    fn view(&self) -> &View {
        &self.negotiation.view
    }

    async fn work(&self) {
        self.worker.work(&ObjectKey::new("ns", "e")).await;
    }

    /// Works until the API was asked so often.
    async fn work_until(&self, requests: usize) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.asked().len() < requests {
            assert!(Instant::now() < deadline, "asked only {:?}", self.asked());
            self.work().await;
            tokio::task::yield_now().await;
        }
    }

    fn asked(&self) -> Vec<String> {
        self.server.lock().unwrap().asked.clone()
    }

    fn status(&self) -> EvacuationStatus {
        self.server.lock().unwrap().evacuation.clone().unwrap().status.unwrap()
    }

    fn break_next(&self, kind: &'static str, fault: Fault) {
        self.server.lock().unwrap().fault = Some((kind, fault));
    }
}

async fn reply(server: &Mutex<Server>, request: Request<Body>, send: SendResponse<Response<Body>>) {
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    let (code, answer) = server.lock().unwrap().answer(&parts.method, parts.uri.path(), body);
    let response = Response::builder().status(code);
    send.send_response(response.body(Body::from(serde_json::to_vec(&answer).unwrap())).unwrap());
}

#[tokio::test]
async fn an_evacuation_whose_app_is_asked_at_creation_costs_no_request_before_the_answer() {
    let fixture = Fixture::leading(evacuation_of(&app(), &json!({})));
    for _ in 0..5 {
        fixture.work().await;
    }
    assert_eq!(fixture.asked(), Vec::<String>::new());
    assert_eq!(fixture.negotiation.queue.scheduled(), 1, "for the end of its timeout");
}

#[tokio::test]
async fn a_deadline_acts_without_a_list_of_the_registrations_and_without_a_read_of_the_pod() {
    let mut evacuation = evacuation_of(&app(), &json!({}));
    let deadline = Utc::now() - TimeDelta::seconds(1);
    evacuation.spec.requesters[0].deadline = Some(deadline.into());
    let fixture = Fixture::leading(evacuation);
    fixture.work_until(3).await;
    assert_eq!(fixture.asked(), ["PUT status", "POST eviction", "PUT status"]);
    let responders = fixture.status().responders.unwrap();
    assert_eq!(responders[0].state, evacuation_api::ResponderState::Interrupted);
}

#[tokio::test]
async fn the_fence_an_attempt_is_recorded_before_it_is_posted_and_its_outcome_after() {
    let fixture = Fixture::leading(evacuation(&json!({})));
    fixture.work_until(3).await;
    assert_eq!(fixture.asked(), ["PUT status", "POST eviction", "PUT status"]);
    let bodies = fixture.server.lock().unwrap().bodies.clone();
    assert_eq!(bodies[0]["status"]["eviction"]["inFlight"], true);
    assert_eq!(bodies[1]["deleteOptions"]["preconditions"]["uid"], "p1");
    assert_eq!(bodies[2]["status"]["eviction"]["inFlight"], false);
    assert_eq!(bodies[2]["metadata"]["resourceVersion"], "11", "what the first write returned is decided on");
    let eviction = fixture.status().eviction.unwrap();
    assert!(eviction.accepted && !eviction.in_flight && eviction.attempts == 1);
    for _ in 0..5 {
        fixture.work().await;
    }
    assert_eq!(fixture.asked().len(), 3, "nothing is left to do until the pod is gone");
}

#[tokio::test]
async fn an_attempt_without_a_place_waits_unrecorded_and_is_woken_when_one_is_free() {
    let evacuation = evacuation(&json!({}));
    let fixture = Fixture::leading(evacuation.clone());
    let gate = &fixture.negotiation.gate;
    let world = fixture.negotiation.world_reader.read(&ObjectKey::new("ns", "e"), &evacuation).await.unwrap();
    let others: Vec<_> = (0..16).map(|at| ObjectKey::new("ns", format!("other-{at}"))).collect();
    for other in &others {
        gate.decide(other, &evacuation, world.clone(), Utc::now());
    }
    let queue = &fixture.negotiation.queue;
    let key = queue.next().await;
    fixture.work().await;
    queue.done(&key);
    assert_eq!(fixture.asked(), Vec::<String>::new());
    assert_eq!((gate.waiting_for_slots(), queue.ready()), (1, 0));
    gate.finished(&others[0], TurnEnd::Accepted, None);
    assert_eq!((gate.waiting_for_slots(), queue.ready()), (0, 1));
    fixture.work_until(3).await;
    assert_eq!(fixture.asked(), ["PUT status", "POST eviction", "PUT status"]);
    // It gave its place back.
    gate.decide(&ObjectKey::new("ns", "next"), &evacuation, world, Utc::now());
    assert_eq!(gate.waiting_for_slots(), 0);
}

#[tokio::test]
async fn a_question_that_waited_is_posted_only_while_its_responder_is_active() {
    let evacuation = evacuation_of(&app(), &json!({}));
    let fixture = Fixture::leading(evacuation.clone());
    let waits = |evacuation: &Evacuation, action| {
        push::ClusterView::waits_for(fixture.view(), evacuation, "self", action)
    };
    assert!(waits(&evacuation, ReviewAction::Ask));

    let mut passed = evacuation.clone();
    passed.metadata.resource_version = Some("11".to_owned());
    passed.status.as_mut().unwrap().responders.as_mut().unwrap()[0].state = ResponderState::Interrupted;
    fixture.view().apply(passed);
    assert!(!waits(&evacuation, ReviewAction::Ask) && !waits(&evacuation, ReviewAction::Remind));
    assert!(waits(&evacuation, ReviewAction::Cancel), "who was asked learns of the end");
    let mut acknowledged = evacuation.clone();
    acknowledged.metadata.resource_version = Some("12".to_owned());
    acknowledged.status.as_mut().unwrap().responders.as_mut().unwrap()[0].cancellation_acknowledged = true;
    fixture.view().apply(acknowledged);
    assert!(!waits(&evacuation, ReviewAction::Cancel), "once");
    let mut of_that_name = evacuation;
    of_that_name.metadata.uid = Some("e2".to_owned());
    assert!(!waits(&of_that_name, ReviewAction::Ask), "another Evacuation has the name");
}

#[tokio::test]
async fn a_process_that_does_not_lead_asks_for_nothing() {
    let fixture = Fixture::new(evacuation(&json!({})), Leadership::standby());
    fixture.work().await;
    assert_eq!(fixture.asked(), Vec::<String>::new());
    assert_eq!(fixture.negotiation.queue.scheduled(), 1, "a lease that is renewed late finds its work");
}

#[tokio::test]
async fn after_a_conflict_what_the_server_has_is_decided_on() {
    let fixture = Fixture::leading(evacuation(&json!({})));
    touch(fixture.server.lock().unwrap().evacuation.as_mut().unwrap());
    fixture.work_until(4).await;
    assert_eq!(fixture.asked(), ["PUT status", "GET e", "PUT status", "POST eviction"]);
    let bodies = fixture.server.lock().unwrap().bodies.clone();
    assert_eq!(bodies[2]["metadata"]["resourceVersion"], "11");
}

#[tokio::test]
async fn what_is_too_early_by_the_servers_clock_waits_as_long_as_the_server_says() {
    let fixture = Fixture::leading(evacuation(&json!({})));
    fixture.break_next("PUT status", failure(409, "NotYet", 30));
    fixture.work().await;
    assert_eq!(fixture.asked(), ["PUT status"]);
    assert_eq!((fixture.negotiation.queue.scheduled(), fixture.negotiation.queue.ready()), (1, 1));
}

#[tokio::test]
async fn an_attempt_of_another_process_is_left_alone_until_its_time_is_over() {
    let fixture = Fixture::leading(evacuation(&in_flight(5)));
    fixture.work().await;
    assert_eq!(fixture.asked(), Vec::<String>::new());
    assert_eq!(fixture.negotiation.queue.scheduled(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_left_alone_until_it_was_seen_for_its_time_although_this_clock_is_ahead() {
    let fixture = Fixture::leading(evacuation(&in_flight(3600)));
    tokio::time::advance(Duration::from_millis(9999)).await;
    fixture.work().await;
    assert_eq!(fixture.asked(), Vec::<String>::new());
    assert_eq!(fixture.negotiation.queue.scheduled(), 1);
    tokio::time::advance(Duration::from_millis(1)).await;
    fixture.work().await;
    assert_eq!(fixture.asked()[..2], ["GET p", "PUT status"]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_another_process_is_then_resolved_by_reading_the_pod() {
    let fixture = Fixture::leading(evacuation(&in_flight(11)));
    tokio::time::advance(Duration::from_secs(10)).await;
    fixture.server.lock().unwrap().pod.as_mut().unwrap().metadata.deletion_timestamp =
        Some(evacuation_api::condition_time(Utc::now()));
    fixture.work().await;
    assert_eq!(fixture.asked(), ["GET p", "PUT status"]);
    assert!(fixture.status().eviction.unwrap().accepted);
}

#[tokio::test]
async fn an_attempt_whose_reply_is_lost_is_not_posted_again_before_its_time_is_over() {
    let fixture = Fixture::leading(evacuation(&json!({})));
    // It says nothing of whether the eviction was carried out.
    fixture.break_next("POST eviction", failure(504, "Timeout", 0));
    fixture.work_until(2).await;
    for _ in 0..20 {
        fixture.work().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.asked(), ["PUT status", "POST eviction"]);
    assert!(fixture.status().eviction.unwrap().in_flight, "no withdrawal succeeds meanwhile");
}

#[tokio::test]
async fn a_pod_that_is_missing_from_a_list_is_read_before_it_counts_as_gone() {
    let asking = json!({"observedGeneration": 1, "responders": [
        {"name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60, "state": "Active",
         "activeTime": evacuation_api::Timestamp(Utc::now())},
    ]});
    for there in [true, false] {
        let fixture = Fixture::leading(evacuation(&asking));
        if !there {
            fixture.server.lock().unwrap().pod = None;
        }
        fixture.view().reset::<Pod>(Vec::new());
        fixture.work().await;
        assert_eq!(fixture.asked()[0], "GET p");
        let finished = fixture.status().finish_time.is_some();
        assert_eq!(finished, !there, "the list may be older than the pod");
    }
}

#[tokio::test]
async fn an_eviction_that_a_budget_holds_back_is_not_posted_and_goes_when_the_budget_has_room() {
    let budget = |version: &str, allowed: i32| -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "b", "resourceVersion": version, "generation": 1},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
                       "expectedPods": 1},
        }))
        .unwrap()
    };
    let fixture = Fixture::leading(evacuation(&json!({})));
    fixture.view().apply(budget("1", 0));
    fixture.work().await;
    fixture.work().await;
    assert_eq!(fixture.asked(), ["PUT status"], "the block is written once, and no eviction is posted");
    let blocked = fixture.status().eviction.unwrap().blocked_by;
    assert_eq!(blocked.iter().map(|b| b.name.as_str()).collect::<Vec<_>>(), ["b"]);
    fixture.view().apply(budget("2", 1));
    fixture.work_until(4).await;
    assert_eq!(fixture.asked()[1..], ["PUT status", "POST eviction", "PUT status"]);
}

#[tokio::test]
async fn an_app_that_has_just_started_is_asked_although_no_watch_has_shown_it_yet() {
    let mut pending = app();
    pending.status = None;
    pending.metadata.resource_version = Some("6".to_owned());
    let fixture = Fixture::leading(evacuation_of(&pending, &json!({})));
    let mut running = app();
    running.metadata.resource_version = Some("7".to_owned());
    fixture.server.lock().unwrap().pod = Some(running);
    fixture.view().apply(pending);
    fixture.work_until(2).await;
    assert_eq!(fixture.asked(), ["GET p", "PUT status"]);
    let responders = fixture.status().responders.unwrap();
    assert_eq!(responders[0].state, evacuation_api::ResponderState::Active);
}

#[tokio::test]
async fn an_app_that_was_asked_keeps_its_time_unless_its_node_read_live_does_not_answer() {
    use evacuation_api::ResponderState::{Active, Interrupted};

    let node = |version: &str, ready: &str| -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "n", "resourceVersion": version},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    };
    let silent = || Some(node("6", "Unknown"));
    let (unread, read, passed) = (vec![], vec!["GET n"], vec!["GET n", "PUT status"]);
    let table = [
        ("no watch has shown it yet", None, None, Active, unread),
        ("it reports again", silent(), Some(node("7", "True")), Active, read),
        ("it is silent", silent(), silent(), Interrupted, passed.clone()),
        ("it is gone", silent(), None, Interrupted, passed),
    ];
    for (name, watched, live, expected, requests) in table {
        let mut pod = app();
        pod.metadata.resource_version = Some("6".to_owned());
        pod.spec.as_mut().unwrap().node_name = Some("n".to_owned());
        let fixture = Fixture::leading(evacuation_of(&pod, &json!({})));
        fixture.server.lock().unwrap().node = live;
        fixture.server.lock().unwrap().pod = Some(pod.clone());
        fixture.view().apply(pod);
        if let Some(node) = watched {
            fixture.view().apply(node);
        }
        fixture.work().await;
        fixture.work_until(requests.len()).await;
        assert_eq!(fixture.asked()[..requests.len()], requests, "{name}");
        assert_eq!(fixture.status().responders.unwrap()[0].state, expected, "{name}");
    }
}

/// `self`, which is asked over HTTP at that port, Active for an hour: no controller ran.
fn asked_over_http(port: u16) -> Evacuation {
    let since = evacuation_api::Timestamp(Utc::now() - TimeDelta::hours(1));
    evacuation(&json!({"observedGeneration": 1, "responders": [
        {"name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60, "http": {"port": port},
         "state": "Active", "activeTime": since}
    ]}))
}

fn long_active() -> Evacuation {
    asked_over_http(80)
}

#[tokio::test]
async fn rule_11_an_answer_that_the_api_does_not_record_is_kept_although_its_endpoint_is_gone() {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let fixture = Fixture::leading(asked_over_http(endpoint.local_addr().unwrap().port()));
    tokio::spawn(accept_once(endpoint));
    {
        let mut server = fixture.server.lock().unwrap();
        server.pod.as_mut().unwrap().status.as_mut().unwrap().pod_ip = Some("127.0.0.1".to_owned());
        server.unrecorded = 20;
    }
    let relayed = || fixture.asked().iter().filter(|asked| *asked == "POST respond").count();
    let deadline = Instant::now() + Duration::from_secs(10);
    while relayed() == 0 {
        assert!(Instant::now() < deadline, "asked only {:?}", fixture.asked());
        fixture.work().await;
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    let answered = || fixture.status().responders.unwrap().remove(0).answer;
    for _ in 0..300 {
        fixture.work().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        if answered().is_some() {
            break;
        }
    }
    assert_eq!((answered(), relayed()), (Some(Answer::Accept), 21), "{:?}", fixture.asked());
}

#[tokio::test]
async fn rule_9_the_time_to_answer_counts_from_when_this_controller_asked() {
    let fixture = Fixture::leading(long_active());
    let before = evacuation_api::Timestamp(Utc::now() - TimeDelta::milliseconds(1));
    // The pod has no address, which is its own affair: it counts as out of reach.
    fixture.work_until(2).await;
    assert_eq!(fixture.asked(), ["GET p", "PUT status"]);
    let responder = fixture.status().responders.unwrap().remove(0);
    assert_eq!(responder.state, evacuation_api::ResponderState::Active, "it has its whole timeout");
    assert!(
        responder.asked_time.is_none() && responder.unreachable_time.is_some_and(|since| since >= before)
    );
}

#[tokio::test]
async fn rule_9_an_app_that_the_api_kept_the_controller_from_asking_is_not_asked() {
    let fixture = Fixture::leading(long_active());
    fixture.break_next("GET p", failure(503, "ServiceUnavailable", 0));
    fixture.work_until(1).await;
    for _ in 0..20 {
        fixture.work().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.asked(), ["GET p"], "nothing is recorded and nothing evicted");
}

#[tokio::test]
async fn a_deadline_acts_although_the_api_takes_no_other_writes_for_a_minute() {
    let reached = (Utc::now() - TimeDelta::seconds(1)).into();
    let mut asking = long_active();
    asking.spec.requesters[0].deadline = Some(reached);
    asking.spec.requesters[0].at_deadline = Some(evacuation_api::DeadlineAction::Evict);
    let created = begin(&asking.spec, "ann", &[], Utc::now());
    asking.status.as_mut().unwrap().policy = created.policy;
    let fixture = Fixture::leading(asking);
    let now = std::time::Instant::now();
    // It answers 429 all the time: it is busy, and there.
    *fixture.cluster.reachability() = Reachability::new(now.checked_sub(Duration::from_mins(1)).unwrap());
    assert!(fixture.cluster.reachability().is_interrupted(now));
    fixture.work_until(2).await;
    assert_eq!(fixture.asked()[..2], ["PUT status", "POST eviction"]);
}
