use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use evacuation_api::Operation;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::{owner::controller_user, testing::call_of};

const PATIENCE: Duration = Duration::from_millis(200);
const SETS: &str = "/apis/apps/v1/namespaces/shop/replicasets";
const SET: &str = "/apis/apps/v1/namespaces/shop/replicasets/web-1";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

/// A kube-apiserver with these objects and lists, by path. It answers 404 to others, and 403 to null.
#[derive(Default)]
struct PlayedApi {
    objects: HashMap<&'static str, Value>,
    /// Start of the names of the namespaces whose reads are not answered.
    hangs: Option<&'static str>,
    /// Time of a read that is answered.
    takes: Duration,
    /// The paths that were read, with their queries.
    read: Mutex<Vec<String>>,
}

fn played(objects: &[(&'static str, Value)]) -> PlayedApi {
    PlayedApi { objects: objects.iter().cloned().collect(), ..PlayedApi::default() }
}

fn reader(api: PlayedApi) -> (SurplusReader, Arc<PlayedApi>) {
    let api = Arc::new(api);
    let played = Arc::clone(&api);
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&played);
        async move {
            api.read.lock().unwrap().push(request.uri().to_string());
            let hangs = api.hangs.map(|start| format!("/namespaces/{start}"));
            if hangs.is_some_and(|part| request.uri().path().contains(&part)) {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(api.takes).await;
            let failure = |code: u16, reason: &str| {
                (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason}))
            };
            let (code, reply) = match api.objects.get(request.uri().path()) {
                None => failure(404, "NotFound"),
                Some(Value::Null) => failure(403, "Forbidden"),
                Some(object) => (200, object.clone()),
            };
            let reply = Body::from(serde_json::to_vec(&reply).unwrap());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(reply).unwrap())
        }
    });
    (SurplusReader::new(Client::new(service, "shop")), api)
}

fn owned(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}])
}

/// Returns the ready pod of that name, UID and ReplicaSet.
fn pod(name: &str, owner: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
            "ownerReferences": owned("ReplicaSet", owner),
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn set(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owned("Deployment", "web")},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}},
    })
}

fn deployment(replicas: i32) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {}},
    })
}

/// Returns the budgets of the namespace: that of the app, which needs so many pods, and others.
fn budgets(needed: i32) -> Value {
    let budget = |app: &str, needed: i32| {
        json!({
            "metadata": {"name": app, "namespace": "shop"},
            "spec": {"minAvailable": needed, "selector": {"matchLabels": {"app": app}}},
            "status": {"desiredHealthy": needed, "disruptedPods": {}},
        })
    };
    list(&[budget("other", 9), budget("web", needed), json!({"metadata": {"name": "none"}, "spec": {}})])
}

fn list(items: &[Value]) -> Value {
    json!({"metadata": {"resourceVersion": "5"}, "items": items})
}

/// Returns the verdict on the deletion of the pod `a` of the ReplicaSet `web-1` by the controller of that
/// name.
async fn verdict_of(reader: &SurplusReader, account: &str) -> bool {
    let call = call_of(&controller_user(account), Operation::Delete);
    reader.is_surplus(&call, &serde_json::from_value(pod("a", "web-1")).unwrap(), PATIENCE).await
}

async fn verdict(reader: &SurplusReader) -> bool {
    verdict_of(reader, "replicaset-controller").await
}

#[tokio::test(start_paused = true)]
async fn a_scale_down_to_nothing_is_read_once_for_all_pods() {
    let (reader, api) = reader(played(&[(SET, set("web-1", 0)), (DEPLOYMENT, deployment(0))]));
    assert!(verdict(&reader).await && verdict(&reader).await);
    assert_eq!(*api.read.lock().unwrap(), [SET, DEPLOYMENT], "neither pods nor ReplicaSets were listed");
}

#[tokio::test(start_paused = true)]
async fn the_wish_is_that_of_the_deployment_over_all_its_replica_sets() {
    let three = || vec![pod("a", "web-1"), pod("b", "web-1"), pod("c", "web-1")];
    for (needed, old, new, pods, surplus) in [
        // A scale-down, under a budget that needs more, and under one that has room.
        (3, 2, 0, three(), true),
        (2, 2, 0, three(), false),
        // A rollout, whose new pod is ready, or is not there yet.
        (3, 1, 1, vec![pod("a", "web-1"), pod("b", "web-1"), pod("c", "web-2")], true),
        (3, 1, 1, vec![pod("a", "web-1"), pod("b", "web-1")], false),
        // The pod is gone by now.
        (3, 2, 0, vec![pod("b", "web-1"), pod("c", "web-1"), pod("d", "web-1")], false),
    ] {
        let objects = [
            (SET, set("web-1", old)),
            (DEPLOYMENT, deployment(2)),
            (SETS, list(&[set("web-1", old), set("web-2", new)])),
            (PODS, list(&pods)),
            (BUDGETS, budgets(needed)),
        ];
        let (reader, api) = reader(played(&objects));
        assert_eq!(verdict(&reader).await, surplus, "{needed} {old} {new} {pods:?}");
        let read = api.read.lock().unwrap();
        let lists = read.iter().filter(|uri| uri.contains("limit=50") && uri.contains("=app%3Dweb"));
        assert_eq!(lists.count(), 2, "{read:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_owner_that_is_gone_or_leaves_are_surplus() {
    let mut leaving = set("web-1", 2);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    let mut namesake = set("web-1", 2);
    namesake["metadata"]["uid"] = json!("another");
    let mut top = deployment(2);
    top["metadata"]["deletionTimestamp"] = json!("2026-11-20T12:00:00Z");
    for objects in [
        vec![],
        vec![(SET, leaving)],
        vec![(SET, namesake)],
        vec![(SET, set("web-1", 2))],
        vec![(SET, set("web-1", 2)), (DEPLOYMENT, top)],
    ] {
        let (reader, _) = reader(played(&objects));
        assert!(verdict(&reader).await, "{objects:?}");
    }
}

/// # Attack
///
/// - Attacker: a kube-apiserver that hangs or fails, or an installation without the new rights
/// - Act: lets deletions pass budgets because nobody knows what the owner wants
/// - Promise: 11
#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_be_read_has_no_surplus() {
    let mut foreign = set("web-1", 0);
    foreign["metadata"]["ownerReferences"] = owned("Rollout", "web");
    let mut many = list(&[pod("a", "web-1"), pod("b", "web-1")]);
    many["metadata"]["continue"] = json!("more");
    let few = list(&[pod("a", "web-1"), pod("b", "web-1")]);
    let readable = [
        (SET, set("web-1", 1)),
        (DEPLOYMENT, deployment(1)),
        (SETS, list(&[set("web-1", 1)])),
        (PODS, few),
        (BUDGETS, budgets(2)),
    ];
    let (all, _) = reader(played(&readable));
    assert!(verdict(&all).await);
    // Then the same, but for the right to read something, or for more pods than are read.
    let unread = readable.iter().map(|(path, _)| (*path, Value::Null));
    // A controller above the ReplicaSet is not known, such as one of Argo.
    for (path, changed) in unread.chain([(PODS, many), (SET, foreign)]) {
        let (reader, _) = reader(PlayedApi {
            objects: readable.iter().cloned().chain([(path, changed.clone())]).collect(),
            ..PlayedApi::default()
        });
        assert!(!verdict(&reader).await, "{path} {changed}");
    }
    let (hanging, api) = reader(PlayedApi { hangs: Some("shop"), ..PlayedApi::default() });
    assert!(!verdict(&hanging).await);
    assert_eq!(*api.read.lock().unwrap(), [SET]);
}

#[tokio::test(start_paused = true)]
async fn only_the_controller_of_the_owner_can_delete_what_is_surplus() {
    let (reader, api) = reader(played(&[(SET, set("web-1", 0)), (DEPLOYMENT, deployment(0))]));
    assert!(!verdict_of(&reader, "job-controller").await);
    let pod: Pod = serde_json::from_value(pod("a", "web-1")).unwrap();
    for user in ["system:kube-scheduler", "alice", "system:serviceaccount:shop:replicaset-controller"] {
        assert!(!reader.is_surplus(&call_of(user, Operation::Delete), &pod, PATIENCE).await, "{user}");
    }
    assert!(api.read.lock().unwrap().is_empty(), "nothing was read for them");
    assert!(verdict(&reader).await);
}

/// # Attack
///
/// - Attacker: a tenant with many slow owners in three namespaces
/// - Act: takes every read of owners again and again, so that surplus deletions of others wait for budgets
/// - Promise: 8
#[tokio::test(start_paused = true)]
async fn slow_reads_of_three_namespaces_hold_up_no_surplus_deletion_of_another() {
    let objects = [
        (SET, set("web-1", 1)),
        (DEPLOYMENT, deployment(1)),
        (SETS, list(&[set("web-1", 1)])),
        (PODS, list(&[pod("a", "web-1"), pod("b", "web-1")])),
        (BUDGETS, budgets(2)),
    ];
    let takes = Duration::from_millis(10);
    let (reader, api) = reader(PlayedApi { hangs: Some("tenant-"), takes, ..played(&objects) });
    let call = call_of(&controller_user("replicaset-controller"), Operation::Delete);
    let slow = (0..8 * READS).map(|number| {
        let mut slow = pod("a", &format!("owner-{number}"));
        slow["metadata"]["namespace"] = json!(format!("tenant-{}", number % 3));
        serde_json::from_value(slow).unwrap()
    });
    let slow: Vec<Pod> = slow.collect();
    for round in 0..5 {
        let tries = futures::future::join_all(slow.iter().map(|pod| reader.is_surplus(&call, pod, PATIENCE)));
        // Just after them. If they had all reads, their ends would leave it too little time.
        let next = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            verdict(&reader).await
        };
        let (found, surplus) = tokio::join!(tries, next);
        assert!(surplus, "round {round}");
        assert!(found.iter().all(|surplus| !surplus), "round {round}: {found:?}");
    }
    for namespace in ["/tenant-0/", "/tenant-1/", "/tenant-2/"] {
        let read = api.read.lock().unwrap().iter().filter(|uri| uri.contains(namespace)).count();
        assert!(read >= 5, "{namespace} is read in each round, {read} times");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_waited_for_the_same_owner_that_wants_no_pods_share_one_read() {
    let (reader, api) = reader(played(&[(SET, set("web-1", 0)), (DEPLOYMENT, deployment(0))]));
    let verdicts = futures::future::join_all((0..20).map(|_| verdict(&reader))).await;
    assert!(verdicts.iter().all(|surplus| *surplus));
    assert_eq!(*api.read.lock().unwrap(), [SET, DEPLOYMENT]);
}
