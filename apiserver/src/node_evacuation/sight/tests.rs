//! Plans of a played kube-apiserver.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex as Lock,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use evacuation_api::DrainBlocker;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

/// The answer to a request.
enum Answer {
    /// A list of these items, in pages.
    Items(Vec<Value>),
    /// A list of so many items, each made for its page, because all of them take the time of a plan.
    Many(usize, Box<dyn Fn(usize) -> Value>),
    /// An object.
    Object(Value),
    /// A body without end.
    Endless,
    /// No answer.
    Silence,
    /// There is no such object.
    NotFound,
}

/// A kube-apiserver that answers by path and query, and remembers what it was asked for.
#[derive(Clone, Default)]
struct PlayedApi {
    asked: Arc<Lock<Vec<String>>>,
    /// Number of bytes that were read of endless bodies.
    read: Arc<AtomicUsize>,
}

type PlayedBody = UnsyncBoxBody<Bytes, std::io::Error>;
type Reply = Pin<Box<dyn Future<Output = Result<Response<PlayedBody>, http::Error>> + Send>>;

impl PlayedApi {
    /// Returns a planner of that cluster.
    fn sights(&self, answer: impl Fn(&str, &str) -> Answer + Clone + Send + Sync + 'static) -> KubeSights {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().clone();
            api.asked.lock().unwrap().push(uri.to_string());
            api.reply(answer(uri.path(), uri.query().unwrap_or_default()), uri.query().unwrap_or_default())
        });
        KubeSights::new(Client::new(service, "default"))
    }

    fn reply(&self, answer: Answer, query: &str) -> Reply {
        let (code, body) = match answer {
            Answer::Items(items) => (200, text(&page(items.len(), |number| items[number].clone(), query))),
            Answer::Many(count, item) => (200, text(&page(count, item, query))),
            Answer::Object(object) => (200, text(&object)),
            Answer::NotFound => (
                404,
                text(&json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})),
            ),
            Answer::Silence => return Box::pin(std::future::pending()),
            Answer::Endless => {
                let read = Arc::clone(&self.read);
                let pieces = stream::repeat_with(move || {
                    let piece = Bytes::from(vec![b' '; 64 << 10]);
                    read.fetch_add(piece.len(), Ordering::Relaxed);
                    Ok::<_, std::io::Error>(http_body::Frame::data(piece))
                });
                (200, StreamBody::new(pieces).boxed_unsync())
            }
        };
        Box::pin(async move { Response::builder().status(code).body(body) })
    }
}

fn text(object: &Value) -> PlayedBody {
    Full::from(object.to_string()).map_err(|never| match never {}).boxed_unsync()
}

/// The page of a list that a query asks for.
fn page(count: usize, item: impl Fn(usize) -> Value, query: &str) -> Value {
    let number = |name: &str| {
        let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<usize>().ok())
    };
    let first = number("continue").unwrap_or_default();
    let end = count.min(first + number("limit").unwrap_or(count));
    let next = if end < count { end.to_string() } else { String::new() };
    let items: Vec<_> = (first..end).map(item).collect();
    json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next}, "items": items})
}

fn drain(node: &str) -> NodeEvacuation {
    let spec = json!({"nodes": {"names": [node]}, "requester": {}, "pods": {"unmanaged": "Evict"}});
    serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()
}

/// A pod of app `db`.
fn pod(namespace: &str, name: &str, node: &str, ready: bool) -> Value {
    let ready = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": {"app": "db"}},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    })
}

/// A budget that lets no pod of app `db` go, with that number of values in its selector.
fn budget(namespace: &str, values: usize) -> Value {
    let expression = json!({"key": "app", "operator": "In", "values": vec!["db"; values]});
    json!({
        "metadata": {"name": "db", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchExpressions": [expression]}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                   "observedGeneration": 0},
    })
}

fn node(path: &str) -> Answer {
    let name = path.rsplit('/').next().unwrap();
    Answer::Object(json!({"metadata": {"name": name, "uid": name}, "spec": {}}))
}

/// The answer of a cluster whose nodes each have one pod, in the namespace of the node's name: for budgets
/// and neighbours of namespaces, by `of_namespace`.
fn answer(path: &str, query: &str, of_namespace: impl Fn(&str, &str) -> Answer) -> Answer {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api", "v1", "nodes", _] => node(path),
        ["api", "v1", "pods"] => {
            let name = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=spec.nodeName%3D"));
            Answer::Items(vec![pod(name.unwrap(), "db-0", name.unwrap(), true)])
        }
        [.., "namespaces", namespace, kind] => of_namespace(namespace, kind),
        _ => Answer::NotFound,
    }
}

fn reasons(blockers: &[DrainBlocker]) -> Vec<&str> {
    blockers.iter().map(|blocker| blocker.reason.as_str()).collect()
}

/// # Attack
///
/// - Attacker: a user who may drain nodes
/// - Act: asks for plan after plan that takes long, so that others get none
/// - Promise: 8
#[tokio::test(start_paused = true)]
async fn slow_plans_of_a_user_hold_up_no_other() {
    let sights = PlayedApi::default().sights(|path, _| match path.rsplit('/').next() {
        Some(name) if name.starts_with("slow-") => Answer::Silence,
        _ => Answer::NotFound,
    });
    let (slow, now) = (drain("slow-0"), Utc::now());
    let flood = (0..20).map(|_| sights.preview(&slow, "mallory", now));
    let mut flood = Box::pin(futures::future::join_all(flood));
    assert!(futures::poll!(&mut flood).is_pending());
    let began = Instant::now();
    let plan = sights.preview(&drain("node-a"), "alice", now).await.unwrap().status;
    assert_eq!((plan.plan.len(), began.elapsed()), (0, Duration::ZERO));
    assert!(flood.await.iter().all(Result::is_err), "a user's own plans wait for each other");
}

/// # Attack
///
/// - Attacker: a tenant with a pod on a node
/// - Act: fills its namespace with budgets, or with pods beside it, so that the plan of a drain of that node
///   takes the memory of the API server and ends the plans of others
/// - Promise: 8
#[tokio::test(start_paused = true)]
async fn a_namespace_without_end_takes_no_memory_and_an_unrelated_plan_is_made() {
    for (kind, what, most) in [
        ("poddisruptionbudgets", "the poddisruptionbudgets of namespace theirs", 4 << 20),
        ("pods", "the pods of namespace theirs", 4 * (8 << 20)),
    ] {
        let api = PlayedApi::default();
        let sights = api.sights(move |path, query| {
            answer(path, query, |namespace, asked| match asked {
                _ if namespace == "theirs" && asked == kind => Answer::Endless,
                "poddisruptionbudgets" => Answer::Items(vec![budget(namespace, 1)]),
                _ => Answer::Items(vec![pod(namespace, "db-1", "other", false)]),
            })
        });
        let now = Utc::now();
        let (theirs, ours) = (drain("theirs"), drain("ours"));
        let plans =
            tokio::join!(sights.preview(&theirs, "mallory", now), sights.preview(&ours, "alice", now));
        let (Ok(theirs), Ok(ours)) = plans else { panic!("{kind}: {plans:?}") };
        assert_eq!((theirs.status.plan.len(), theirs.left_out), (1, vec![what.to_owned()]));
        let (plan, left_out) = (ours.status, ours.left_out.len());
        assert_eq!((plan.plan.len(), plan.blockers.len(), left_out), (1, 1, 0), "{kind}: the other is whole");
        let read = api.read.load(Ordering::Relaxed);
        assert!(read <= most + (512 << 10), "{kind}: {read} bytes were read");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_reads_only_the_budgets_of_its_pods_namespaces_and_each_list_in_pages_of_20() {
    let api = PlayedApi::default();
    let sights = api.sights(|path, query| {
        if path == "/api/v1/pods" {
            let pods = (0..45).map(|number| pod("shop", &format!("db-{number}"), "node-a", true));
            return Answer::Items(pods.collect());
        }
        answer(path, query, |namespace, kind| match kind {
            "poddisruptionbudgets" => Answer::Items(vec![budget(namespace, 1)]),
            _ => Answer::Items((0..45).map(|n| pod(namespace, &format!("w-{n}"), "b", n % 2 == 0)).collect()),
        })
    });
    let plan = sights.preview(&drain("node-a"), "alice", Utc::now()).await.unwrap().status;
    assert_eq!((plan.plan.len(), plan.pods.blocked), (45, 45));
    let asked = api.asked.lock().unwrap().clone();
    let lists: Vec<_> = asked.iter().filter(|uri| !uri.contains("/nodes/")).collect();
    assert!(lists.iter().all(|uri| uri.contains("limit=20")), "{lists:#?}");
    let of = |path: &str| lists.iter().filter(|uri| uri.split('?').next() == Some(path)).count();
    let counts = [
        of("/api/v1/pods"),
        of("/api/v1/namespaces/shop/pods"),
        of("/apis/policy/v1/namespaces/shop/poddisruptionbudgets"),
    ];
    assert_eq!((counts, lists.len()), ([3, 3, 1], 7), "{lists:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_budget_with_more_than_256_terms_counts_for_a_plan_as_for_the_controller() {
    for (values, expected) in [(255, vec!["BudgetAllowsNone"]), (256, vec![])] {
        let sights = PlayedApi::default().sights(move |path, query| {
            answer(path, query, |namespace, kind| match kind {
                "poddisruptionbudgets" => Answer::Items(vec![budget(namespace, values)]),
                _ => Answer::Items(Vec::new()),
            })
        });
        let plan = sights.preview(&drain("shop"), "alice", Utc::now()).await.unwrap().status;
        assert_eq!(reasons(&plan.blockers), expected, "{} terms", values + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_unready_pods_are_left_out_and_too_large_ones_of_the_node_leave_no_plan() {
    let beside = |unready: usize| {
        let sights = PlayedApi::default().sights(move |path, query| {
            answer(path, query, |namespace, kind| {
                if kind == "poddisruptionbudgets" {
                    return Answer::Items(vec![budget(namespace, 1)]);
                }
                let namespace = namespace.to_owned();
                let item = move |n: usize| pod(&namespace, &format!("w-{n}"), "b", n >= unready);
                Answer::Many(3000, Box::new(item))
            })
        });
        async move { sights.preview(&drain("shop"), "alice", Utc::now()).await.unwrap().left_out }
    };
    assert_eq!(beside(2000).await, [] as [&str; 0], "ready pods are not kept");
    assert_eq!(beside(2001).await, ["the pods of namespace shop"]);

    // Few fit into a page, and one into none: the kube-apiserver stores no such pod.
    for (pods, bytes, expected) in [(6, 3 << 20, Ok(6)), (1, 9 << 20, Err(()))] {
        let sights = PlayedApi::default().sights(move |path, query| match path {
            "/api/v1/pods" => {
                let large = |number: usize| {
                    let mut large = pod("shop", &format!("db-{number}"), "node-a", true);
                    large["metadata"]["annotations"] = json!({"acme.io/big": "x".repeat(bytes)});
                    large
                };
                Answer::Items((0..pods).map(large).collect())
            }
            _ => answer(path, query, |_, _| Answer::Items(Vec::new())),
        });
        let plan = sights.preview(&drain("node-a"), "alice", Utc::now()).await;
        if let Err(error) = &plan {
            assert_eq!(error.to_string(), "the pods of node node-a are too many or too large for a plan");
        }
        assert_eq!(plan.map(|plan| plan.status.plan.len()).map_err(drop), expected);
    }
}
