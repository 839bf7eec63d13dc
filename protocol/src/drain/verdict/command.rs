//! Commands in the ways out of messages.

use evacuation_api::{GATEWAY_COUNT_LABEL, GATEWAY_ENTRY_PREFIX, NodeEvacuation};
use k8s_openapi::{
    api::{core::v1::Pod, policy::v1::PodDisruptionBudget},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{DrainedPod, Standing, text};
use crate::requesters::is_kept;

/// Label by which the StatefulSet controller marks each of its pods alone.
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// Returns the command that changes the request for a pod, without its flags: that of a drain, which asks for
/// its other pods, too, or that for the pod alone. For a pod that no person or tool of others asked, it makes
/// the request: the entries of the gateway and the controller cannot be changed.
pub(super) fn set(pod: &DrainedPod<'_>) -> String {
    match pod.drain {
        Some(drain) => format!("kubectl evacuate set {}", text::quote(drain)),
        None if is_asked_by(pod, |entry| !is_kept(entry)) => {
            format!("kubectl evacuate set pod/{}", object(&pod.pod.metadata))
        }
        None => ask(pod.pod),
    }
}

/// Returns the command that deletes a pod at a deadline, past its budgets and past policies on evictions. Of
/// a drain it concerns this pod alone.
pub(super) fn delete_at_deadline(pod: &DrainedPod<'_>) -> String {
    let request = if pod.drain.is_some() { ask(pod.pod) } else { set(pod) };
    format!("{request} --deadline=10m --at-deadline=delete")
}

/// Returns how the request for a pod is ended: the command that cancels its drain, or that takes back the
/// request for the pod alone. The entry of the gateway ends with the call of its owner. `None` for a pod that
/// nobody asked, and for entries that the controller renews.
pub(super) fn end(pod: &DrainedPod<'_>) -> Option<String> {
    let cancel = |drain: &str| format!("kubectl evacuate cancel {}", text::quote(drain));
    if let Some(drain) = pod.drain {
        return Some(cancel(drain));
    }
    if is_asked_by(pod, |entry| !is_kept(entry)) {
        return Some(format!("kubectl evacuate cancel pod/{}", object(&pod.pod.metadata)));
    }
    let Standing::Asked(evacuation) = &pod.standing else { return None };
    let entries = &evacuation.spec.requesters;
    let drain = entries.iter().find_map(|entry| NodeEvacuation::name_in_entry(&entry.name));
    let call = entries.iter().find(|entry| entry.name.starts_with(GATEWAY_ENTRY_PREFIX));
    drain.map(cancel).or_else(|| {
        call.map(|entry| {
            let at =
                entry.deadline.map(|time| format!(" at {}", text::time(time.time()))).unwrap_or_default();
            let caller = text::quote(&entry.owner);
            format!("stop the call of {caller}, such as a drain, and the request expires{at}")
        })
    })
}

/// Returns the command that continues past the refusal of a pod's app.
pub(super) fn overrule(pod: &Pod) -> String {
    format!("kubectl evacuate override {}", object(&pod.metadata))
}

/// Returns the command that asks a pod again, without further flags.
pub(super) fn ask(pod: &Pod) -> String {
    format!("kubectl create evacuation {}", object(&pod.metadata))
}

/// Returns the command that shows what holds the pod of that name, in the namespace of another one.
pub(super) fn why(name: &str, neighbour: &ObjectMeta) -> String {
    let namespace = neighbour.namespace.as_deref().unwrap_or_default();
    format!("kubectl evacuate why {} -n {namespace}", text::quote(name))
}

/// Returns the command that deletes a pod.
pub(super) fn delete(pod: &Pod) -> String {
    format!("kubectl delete pod {}", object(&pod.metadata))
}

/// Returns the command that removes a pod from the API without its kubelet.
pub(super) fn force(pod: &Pod) -> String {
    format!("{} --grace-period=0 --force", delete(pod))
}

/// Returns the command that removes all finalizers of a pod.
pub(super) fn remove_finalizers(pod: &Pod) -> String {
    merge("pod", &pod.metadata, r#"{"metadata":{"finalizers":null}}"#)
}

/// Returns the way out that lets a drain end without the pods that terminate for too long, with `; or` before
/// it. Empty for a pod that no drain moves.
pub(super) fn skip(pod: &DrainedPod<'_>) -> String {
    if pod.drain.is_none() {
        return String::new();
    }
    let set = change_rules(pod, "--skip-wait-for-delete-timeout=30");
    format!("; or let the drain end without pods that terminate: {set}")
}

/// Returns the command that changes which pods the drain of a pod asks.
pub(super) fn change_rules(pod: &DrainedPod<'_>, flags: &str) -> String {
    format!("kubectl evacuate set {} {flags}", pod.drain.map_or_else(|| "DRAIN".to_owned(), text::quote))
}

/// Returns the way out that leaves a pod alone by a label that its drain does not select, with `; or` before
/// it. Empty for a pod without labels of its own, in a plan, and for a drain with a pod selector: the command
/// would replace it, and the drain would ask the pods that it spared.
pub(super) fn leave_out(pod: &DrainedPod<'_>) -> String {
    if !pod.selects_all {
        return String::new();
    }
    let labels = pod.pod.metadata.labels.iter().flatten().filter(|(_, value)| !value.is_empty());
    // A controller changes its hashes, which say nothing to a reader.
    let own = labels.filter(|(key, _)| !["-hash", "-generation"].iter().any(|end| key.ends_with(end)));
    let Some((key, value)) = own.min_by_key(|(key, _)| key.as_str() != POD_NAME_LABEL) else {
        return String::new();
    };
    let set = change_rules(pod, &format!("--pod-selector='{key}!={value}'"));
    format!("; or leave out all pods with {key}={value}: {set}")
}

/// Returns the command by which Kubernetes removes the pods of a node that is off.
pub(super) fn out_of_service(node: &str) -> String {
    format!("kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
}

/// Returns the command that takes [`out_of_service`] back.
pub(super) fn in_service(node: &str) -> String {
    format!("kubectl taint node {node} node.kubernetes.io/out-of-service:NoExecute-")
}

/// Returns the command that lets pods go that are not ready.
pub(super) fn let_unready_go(budget: &PodDisruptionBudget) -> String {
    let patch = r#"{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}"#;
    merge("poddisruptionbudget", &budget.metadata, patch)
}

/// Returns the command by which a budget of that many pods allows one disruption at a time. A number as
/// `minAvailable` stays one: the disruption controller counts pods without a controller by no other limit.
pub(super) fn allow_one(budget: &PodDisruptionBudget, pods: i32, is_owned: bool) -> String {
    let limit = budget.spec.as_ref().and_then(|spec| spec.min_available.as_ref());
    let fewer = pods.saturating_sub(1).max(0);
    let patch = match (limit, is_owned) {
        (Some(IntOrString::Int(_)), _) => format!(r#"{{"spec":{{"minAvailable":{fewer}}}}}"#),
        // A budget has one of both.
        (_, false) => format!(r#"{{"spec":{{"minAvailable":{fewer},"maxUnavailable":null}}}}"#),
        (_, true) => r#"{"spec":{"minAvailable":null,"maxUnavailable":1}}"#.to_owned(),
    };
    merge("poddisruptionbudget", &budget.metadata, &patch)
}

/// Returns the command that deletes budgets of a namespace.
pub(super) fn delete_budgets(names: &str, namespace: &str) -> String {
    format!("kubectl delete poddisruptionbudget {names} -n {namespace}")
}

/// Returns the command by which deletions of a namespace no longer count as evictions.
pub(super) fn stop_counting(namespace: &str) -> String {
    format!("kubectl label namespace {namespace} {GATEWAY_COUNT_LABEL}-")
}

fn merge(kind: &str, metadata: &ObjectMeta, patch: &str) -> String {
    format!("kubectl patch {kind} {} --type=merge -p '{patch}'", object(metadata))
}

/// Returns true when the pod is asked by an entry whose name is of that kind.
fn is_asked_by(pod: &DrainedPod<'_>, kind: impl Fn(&str) -> bool) -> bool {
    let Standing::Asked(evacuation) = &pod.standing else { return false };
    evacuation.spec.requesters.iter().any(|entry| kind(&entry.name))
}

/// Returns the object's name with the flag of its namespace.
fn object(metadata: &ObjectMeta) -> String {
    format!("{} -n {}", text::name(metadata), metadata.namespace.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use evacuation_api::{POD_GROUP_REQUESTER, REFRESH_REQUESTER};

    use super::{super::fixtures, *};
    use crate::drain::surroundings::PLANNED_ENTRY;

    #[test]
    fn a_pod_is_left_out_by_the_label_that_tells_it_best() {
        let set = "kubectl evacuate set n --pod-selector=";
        for (labels, expected) in [
            (json!({"app": "db"}), format!("; or leave out all pods with app=db: {set}'app!=db'")),
            (
                json!({"app": "db", "controller-revision-hash": "a", "statefulset.kubernetes.io/pod-name": "db-0"}),
                format!(
                    "; or leave out all pods with statefulset.kubernetes.io/pod-name=db-0: \
                     {set}'statefulset.kubernetes.io/pod-name!=db-0'"
                ),
            ),
            (json!({"app": "", "pod-template-hash": "a"}), String::new()),
            (json!({}), String::new()),
        ] {
            let pod = fixtures::pod(json!({"metadata": {"labels": labels}}));
            let refused = fixtures::drained(&pod, Standing::Waiting);
            assert_eq!(leave_out(&refused), expected);
            assert_eq!(leave_out(&DrainedPod { selects_all: false, ..refused }), "", "it has a selector");
        }
    }

    #[test]
    fn a_request_is_changed_and_ended_where_it_was_made() {
        let pod = fixtures::pod(json!({}));
        let asked = |name: &str| -> evacuation_api::Evacuation {
            let deadline = "2026-11-20T22:00:30Z";
            let requesters = json!([{"owner": "ann", "name": name, "deadline": deadline}]);
            let spec = json!({"target": {"pod": {"name": "db-0"}}, "requesters": requesters});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        let ask = "kubectl create evacuation db-0 -n shop";
        for (drain, entry, changes, ends) in [
            (
                Some("node-a"),
                "drain.evacuation.dev/node-a-12345678",
                "kubectl evacuate set node-a",
                Some("kubectl evacuate cancel node-a"),
            ),
            (
                None,
                "kubectl.evacuation.dev/ann",
                "kubectl evacuate set pod/db-0 -n shop",
                Some("kubectl evacuate cancel pod/db-0 -n shop"),
            ),
            (None, "drain.evacuation.dev/node-a-12345678", ask, Some("kubectl evacuate cancel node-a")),
            (
                None,
                "gateway.evacuation.dev/deletion",
                ask,
                Some(
                    "stop the call of ann, such as a drain, and the request expires at 2026-11-20T22:00:30Z",
                ),
            ),
            (None, REFRESH_REQUESTER, ask, None),
            (None, POD_GROUP_REQUESTER, ask, None),
            (None, PLANNED_ENTRY, ask, None),
        ] {
            let evacuation = asked(entry);
            let seen = DrainedPod { drain, ..fixtures::drained(&pod, Standing::Asked(&evacuation)) };
            assert_eq!(set(&seen), changes);
            assert_eq!(end(&seen).as_deref(), ends, "{entry}");
        }
    }
}
