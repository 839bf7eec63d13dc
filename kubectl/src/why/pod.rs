//! Reads of a pod and of what it depends on.

use anyhow::Context;
use evacuation_api::{BlockedReason, ConditionType, DrainBlocker, Evacuation, GROUP, NodeEvacuation};
use evacuation_protocol::{Standing, Surroundings, is_finished, judge};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::json;

use super::{
    Page, newest,
    text::{Facts, gone},
};
use crate::{
    complaint::complaint,
    drain_ref::has_ended,
    listing::readable,
    surroundings::{asked, surroundings},
};

/// Returns the page of the pod of that name, or of the last Evacuation of one. `None` if there is neither.
///
/// # Errors
///
/// The pod or its Evacuations cannot be read.
pub(super) async fn page(client: &Client, name: &str) -> anyhow::Result<Option<Page>> {
    let namespace = client.default_namespace().to_owned();
    let full = format!("{namespace}/{name}");
    let pod: Option<Pod> = Api::default_namespaced(client.clone())
        .get_opt(name)
        .await
        .with_context(|| format!("pod {full} cannot be read"))?;
    let evacuations: Api<Evacuation> = Api::default_namespaced(client.clone());
    let of_pod = ListParams::default().fields(&format!("spec.target.pod.name={name}"));
    let evacuations = evacuations.list(&of_pod).await;
    let evacuations = evacuations.with_context(|| format!("evacuations of pod {full} cannot be listed"))?;
    let Some(pod) = pod else {
        let Some(last) = newest(evacuations.items) else { return Ok(None) };
        let names = vec![resource(&last)];
        let object = json!({"pod": full, "exists": false, "evacuation": last});
        let text = Box::new(move |wide, now| gone(&full, &last, wide, now));
        return Ok(Some(Page { object, names, text }));
    };
    let of_this = evacuations.items.into_iter().filter(|e| e.spec.target.pod.uid == pod.uid());
    let evacuation = newest(of_this.collect());
    let mut surroundings: Surroundings = or_warn(surroundings(client, &namespace).await);
    let status = evacuation.as_ref().and_then(|evacuation| evacuation.status.as_ref());
    if status.is_some_and(|status| status.reason() == Some(BlockedReason::AwaitingTurn)) {
        surroundings.asked = or_warn(asked(client, &namespace).await);
    }
    let (node, node_deleted) = node_of(client, &pod).await;
    let drains = held_drains(client, &full).await;
    let now = chrono::Utc::now();
    let seen = surroundings.drained(&pod, standing(&pod, evacuation.as_ref()), node.as_ref());
    let facts = Facts {
        node_deleted,
        drains,
        budgets: seen.budgets.iter().map(|&budget| budget.clone()).collect(),
        judgement: judge(&seen, now),
        obstacle: surroundings.obstacle(&pod, node.as_ref(), now),
        pod,
        evacuation,
    };
    let names = facts.evacuation.iter().map(resource).collect();
    Ok(Some(Page { object: facts.object(), names, text: Box::new(move |wide, now| facts.render(wide, now)) }))
}

/// Returns what was read. Without the rights to read it the rest of the page still helps: then this warns.
fn or_warn<T: Default>(read: anyhow::Result<T>) -> T {
    read.unwrap_or_else(|error| {
        eprintln!("warning: {}", complaint(&error));
        T::default()
    })
}

/// Returns `evacuation.evacuation.dev/NAME`, as kubectl prints it.
fn resource(evacuation: &Evacuation) -> String {
    format!("evacuation.{GROUP}/{}", evacuation.name_any())
}

/// Returns the progress of the requests with a pod.
fn standing<'a>(pod: &Pod, evacuation: Option<&'a Evacuation>) -> Standing<'a> {
    match evacuation {
        Some(open) if !open.status.as_ref().is_some_and(is_finished) => Standing::Asked(open),
        _ if pod.metadata.deletion_timestamp.is_some() => Standing::Leaving,
        Some(ended) if ended.status.as_ref().is_some_and(|s| s.is_true(ConditionType::Failed)) => {
            Standing::LeftAlone(ended)
        }
        _ => Standing::Waiting,
    }
}

/// Returns the node of a pod, and true when it was deleted.
async fn node_of(client: &Client, pod: &Pod) -> (Option<Node>, bool) {
    let Some(name) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) else {
        return (None, false);
    };
    let found = Api::<Node>::all(client.clone()).get_opt(name).await;
    let deleted = matches!(found, Ok(None));
    (found.ok().flatten(), deleted)
}

/// Returns the unfinished drains that the pod of that name holds back, and how, if the caller may list them.
async fn held_drains(client: &Client, pod: &str) -> Vec<(String, DrainBlocker)> {
    let all = readable(&Api::<NodeEvacuation>::all(client.clone())).await;
    let open = all.into_iter().flat_map(|all| all.items).filter(|drain| !has_ended(drain));
    open.filter_map(|drain| {
        let name = drain.name_any();
        let blockers = drain.status.map(|status| status.blockers).unwrap_or_default();
        let of_pod = blockers.into_iter().find(|blocker| blocker.pod.as_deref() == Some(pod));
        of_pod.map(|blocker| (name, blocker))
    })
    .collect()
}
