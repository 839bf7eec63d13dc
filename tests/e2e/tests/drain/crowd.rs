//! A drain among many finished Evacuations.

use std::collections::BTreeMap;

use controlplane::AuditEvent;
use evacuation_api::Evacuation;
use evacuation_e2e::scene::{CONTROLLER, entry, leave, wanting};
use futures::{StreamExt, stream};
use kube::{Api, ResourceExt, api::ListParams, api::PostParams};
use serde_json::json;

use crate::nodes::Stage;

/// Number of pods on the node.
const PODS: i32 = 10;
/// Maximum number of writes of the status of an Evacuation whose pod has no responder: the attempt, its
/// outcome, the end, and two for a reason that holds it back and goes.
const WRITES: usize = 5;
/// Number of finished Evacuations of each pod.
const EACH: usize = 100;

/// Asks a pod by an entry that waits for its window, and withdraws it: no app is asked, and the Evacuation
/// stays as finished.
async fn finish_one(api: &Api<Evacuation>, pod: &str) {
    let window = json!({"schedule": "0 3 1 1 *", "durationSeconds": 3600, "timeZone": "Etc/UTC"});
    let asleep = entry("test.evacuation.dev/asleep", json!({"window": window}));
    let created = api.create(&PostParams::default(), &wanting(pod, &[asleep])).await.unwrap();
    leave(api, &created).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_among_a_thousand_finished_evacuations_and_makes_no_request_for_them() {
    let mut stage = Stage::new("crowd", 1).await;
    let quick = json!({"controlplane.test/running-after": "100ms", "controlplane.test/gone-after": "100ms"});
    let pods = stage.deployment("web", PODS, quick).await;
    stage.add_node(1).await;
    let api = stage.scene.evacuations();
    let fill = |pod: String| {
        let api = api.clone();
        async move {
            for _ in 0..EACH {
                finish_one(&api, &pod).await;
            }
        }
    };
    stream::iter(pods.iter().map(ResourceExt::name_any)).for_each_concurrent(None, fill).await;
    let finished = api.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(finished.len(), EACH * usize::try_from(PODS).unwrap());

    let drain = stage.drain("d", &[0], json!({})).await;
    let status = stage.drained("d").await;
    assert_eq!((status.pods.total, status.pods.gone), (PODS, PODS));
    let begun = drain.metadata.creation_timestamp.unwrap().0;
    let calls = stage.scene.control_plane().audit_events().unwrap();
    let old: Vec<String> = finished.iter().map(ResourceExt::name_any).collect();
    let ours = calls.iter().filter(|call| {
        call.user() == CONTROLLER
            && call.namespace() == stage.scene.namespace()
            && call.received().is_some_and(|time| time >= begun)
    });
    let ours: Vec<_> = ours.collect();
    let of_finished: Vec<_> = ours
        .iter()
        .filter(|call| call.resource() == "evacuations" && old.iter().any(|name| name == call.name()))
        .map(|call| format!("{} {}", call.verb(), call.name()))
        .collect();
    assert!(of_finished.is_empty(), "{of_finished:?}");

    // Events of the withdrawals can still be on their way, and a write can meet a conflict: neither is
    // counted. What the drain causes does not grow with the load of the machine.
    let pods = usize::try_from(PODS).unwrap();
    let done = |verb: &str, resource: &str, subresource: &str| {
        let is_it = |call: &&&AuditEvent| {
            (call.verb(), call.resource(), call.subresource()) == (verb, resource, subresource)
                && (200..300).contains(&call.code())
        };
        ours.iter().filter(is_it).count()
    };
    assert_eq!(done("create", "evacuations", ""), pods, "one question to each pod");
    assert_eq!(done("create", "pods", "eviction"), pods, "one eviction of each pod");
    let writes = done("update", "evacuations", "status");
    assert!(writes <= WRITES * pods, "{writes} writes of the status of {pods} Evacuations");
    let mut causes = BTreeMap::<String, usize>::new();
    for call in &ours {
        let cause = format!("{} {}/{} {}", call.verb(), call.resource(), call.subresource(), call.code());
        *causes.entry(cause).or_default() += 1;
    }
    let is_late = |call: &&&AuditEvent| {
        call.resource() == "events" && old.iter().any(|name| call.name().starts_with(name.as_str()))
    };
    let late = ours.iter().filter(is_late).count();
    println!("{causes:#?}, {late} Events of Evacuations that had finished before");
}
