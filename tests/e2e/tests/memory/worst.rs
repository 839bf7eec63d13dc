//! The objects that take the most memory of a reader for their size.

use std::{fmt::Write, sync::LazyLock};

/// Maximum size of the stored objects of one kind: the default of the API server's `--max-bytes`.
pub(crate) const MAX_BYTES: usize = 128 << 20;
/// Maximum number of objects of a kind in a namespace that a tenant can create: `--max-objects-per-namespace`
/// without its reserve.
const IN_NAMESPACE: usize = 3750;
/// Number of short names that fit into the metadata or the spec of one of the project's objects.
const NAMES: usize = 30_000;
/// Number of parts of an object of about 1.5 MiB, the most that the store of the kube-apiserver takes.
const PARTS: usize = 10_000;

/// Labels of an object of ours, or as many labels of a selector.
static LABELS: LazyLock<String> = LazyLock::new(|| many(NAMES, |number| format!(r#""{number:x}":"""#)));
/// The record of a manager that owns as many fields.
static FIELDS: LazyLock<String> = LazyLock::new(|| many(NAMES, |number| format!(r#""f:{number:x}":{{}}"#)));
/// Values of a selector.
static VALUES: LazyLock<String> = LazyLock::new(|| many(NAMES, |number| format!(r#""{number:x}""#)));
/// Labels of a pod.
static POD_LABELS: LazyLock<String> =
    LazyLock::new(|| many(10 * PARTS, |number| format!(r#""{number:x}":"""#)));
/// Values of the selector of a budget.
static BUDGET_VALUES: LazyLock<String> =
    LazyLock::new(|| many(10 * PARTS, |number| format!(r#""{number:x}""#)));
/// Containers of a pod.
static CONTAINERS: LazyLock<String> = LazyLock::new(|| many(PARTS, container));
/// Variables of a container.
static VARIABLES: LazyLock<String> =
    LazyLock::new(|| many(10 * PARTS, |number| format!(r#"{{"name":"{number:x}"}}"#)));
/// Owners of an object.
static OWNERS: LazyLock<String> = LazyLock::new(|| {
    many(2 * PARTS, |number| format!(r#"{{"apiVersion":"v1","kind":"A","name":"a","uid":"{number:x}"}}"#))
});

/// A list of objects.
pub(crate) struct Objects {
    pub(crate) count: usize,
    /// The object at a place, as it is stored.
    pub(crate) object: fn(usize) -> String,
}

impl Objects {
    /// As many of these objects as take that many bytes.
    pub(crate) fn of_size(bytes: usize, object: fn(usize) -> String) -> Self {
        // The first ones have shorter names.
        let size = object(IN_NAMESPACE).len();
        Self { count: bytes.div_ceil(size), object }
    }
}

fn metadata(place: usize, more: &str) -> String {
    let namespace = place / IN_NAMESPACE;
    format!(
        r#""metadata":{{"name":"o{place}","namespace":"t{namespace}","uid":"6f1c6f1c-6f1c-6f1c-6f1c-{place:012}","#
    ) + &format!(
        r#""resourceVersion":"{place}","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"{more}}}"#
    )
}

/// Returns `count` values of a list or map, separated by commas.
fn many(count: usize, value: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        write!(text, "{comma}{}", value(number)).unwrap();
    }
    text
}

fn evacuation(place: usize, metadata: &str, spec: &str, status: &str) -> String {
    format!(
        r#"{{"apiVersion":"evacuation.dev/v1alpha1","kind":"Evacuation",{metadata},"spec":{{"target":{{"pod":{{"name":"p","uid":"{place:036}"}}}},"requesters":[{spec}]}},"status":{{"policy":{{"onRefusal":"Wait"}},{status}}}}}"#
    )
}

fn recorded(number: usize) -> String {
    format!(
        r#"{{"owner":"u{number}","name":"a.b/c","user":"u","groups":["system:serviceaccounts","system:serviceaccounts:t","system:authenticated"],"time":"2026-01-01T00:00:00Z"}}"#
    )
}

const RESPONDER: &str =
    r#"{"name":"self","priority":10000,"timeoutSeconds":60,"maxDelaySeconds":86400,"state":"Canceled"}"#;

/// The smallest Evacuation: a tenant creates one and withdraws, again and again. It keeps the record.
pub(crate) fn ended(place: usize) -> String {
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","reason":"Canceled","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let (failed, finished) = (condition("Failed"), condition("Finished"));
    let status = format!(
        r#""requesters":[{}],"responders":[{RESPONDER}],"conditions":[{failed},{finished}],"finishTime":"2026-01-01T00:00:00Z""#,
        recorded(0)
    );
    evacuation(place, &metadata(place, ""), "", &status)
}

/// An Evacuation of short entries of five service accounts.
pub(crate) fn entries(place: usize) -> String {
    let spec = many(40, |number| format!(r#"{{"owner":"u{}","name":"a.b/{number}"}}"#, number / 8));
    let status = format!(r#""requesters":[{}],"responders":[{RESPONDER}]"#, many(40, recorded));
    evacuation(place, &metadata(place, ""), &spec, &status)
}

/// An Evacuation whose metadata is full of short labels.
fn labelled(place: usize) -> String {
    let labels = &*LABELS;
    let metadata = metadata(place, &format!(r#","labels":{{{labels}}}"#));
    evacuation(
        place,
        &metadata,
        r#"{"owner":"u","name":"a.b/c"}"#,
        &format!(r#""requesters":[{}]"#, recorded(0)),
    )
}

/// An Evacuation whose metadata is full of the record of field owners.
fn owned(place: usize) -> String {
    let fields = &*FIELDS;
    let managed = format!(
        r#","managedFields":[{{"manager":"m","operation":"Apply","apiVersion":"evacuation.dev/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{{{fields}}}}}]"#
    );
    let metadata = metadata(place, &managed);
    evacuation(
        place,
        &metadata,
        r#"{"owner":"u","name":"a.b/c"}"#,
        &format!(r#""requesters":[{}]"#, recorded(0)),
    )
}

/// An Evacuation whose metadata is full, in one of two ways.
pub(crate) fn of_metadata(place: usize) -> String {
    if place.is_multiple_of(2) { labelled(place) } else { owned(place) }
}

/// A registration whose selector is full of short values.
pub(crate) fn responder(place: usize) -> String {
    let values = &*VALUES;
    format!(
        r#"{{{},"spec":{{"name":"a.b/c","selector":{{"matchExpressions":[{{"key":"a","operator":"In","values":[{values}]}}]}}}}}}"#,
        metadata(place, "")
    )
}

/// A registration whose selector is full of short labels.
pub(crate) fn responder_labels(place: usize) -> String {
    let labels = &*LABELS;
    format!(
        r#"{{{},"spec":{{"name":"a.b/c","selector":{{"matchLabels":{{{labels}}}}}}}}}"#,
        metadata(place, "")
    )
}

fn pod(metadata: &str, containers: &str) -> String {
    format!(
        r#"{{{metadata},"spec":{{"containers":[{containers}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Pending","qosClass":"BestEffort","conditions":[{{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"2026-01-01T00:00:00Z"}}]}}}}"#
    )
}

fn container(number: usize) -> String {
    format!(
        r#"{{"name":"c{number}","image":"i","resources":{{}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"Always"}}"#
    )
}

/// A pod of as many containers as fit.
pub(crate) fn pod_of_containers(place: usize) -> String {
    pod(&metadata(place, ""), &CONTAINERS)
}

/// A pod of a container with as many variables as fit.
pub(crate) fn pod_of_variables(place: usize) -> String {
    let variables = &*VARIABLES;
    pod(&metadata(place, ""), &format!(r#"{{"name":"c","image":"i","env":[{variables}]}}"#))
}

/// A pod with as many labels as fit.
pub(crate) fn pod_of_labels(place: usize) -> String {
    let labels = &*POD_LABELS;
    pod(&metadata(place, &format!(r#","labels":{{{labels}}}"#)), &container(0))
}

/// A budget with as many values as fit.
pub(crate) fn budget(place: usize) -> String {
    let values = &*BUDGET_VALUES;
    format!(
        r#"{{{},"spec":{{"maxUnavailable":1,"selector":{{"matchExpressions":[{{"key":"a","operator":"In","values":[{values}]}}]}}}},"status":{{"currentHealthy":0,"desiredHealthy":0,"disruptionsAllowed":0,"expectedPods":0}}}}"#,
        metadata(place, "")
    )
}

/// A ReplicaSet, or another owner of pods, with as many owners of its own as fit.
pub(crate) fn owner(place: usize) -> String {
    let owners = &*OWNERS;
    format!(
        r#"{{{},"spec":{{"replicas":0}}}}"#,
        metadata(place, &format!(r#","ownerReferences":[{owners}]"#))
    )
}

/// A node.
pub(crate) fn node(place: usize) -> String {
    format!(r#"{{"metadata":{{"name":"n{place}","uid":"n{place}","resourceVersion":"1"}},"spec":{{}}}}"#)
}

/// A drain of that many nodes, on which no pod is left that the controller knows.
pub(crate) fn drain(nodes: usize) -> String {
    let (time, names) = ("2026-01-01T00:00:00Z", many(nodes, |node| format!(r#""n{node}""#)));
    let drained = many(nodes, |node| {
        format!(
            r#"{{"name":"n{node}","uid":"n{node}","phase":"Draining","verdict":"Draining","message":"m","cordoned":"No","pods":{{}},"startTime":"{time}"}}"#
        )
    });
    format!(
        r#"{{"metadata":{{"name":"d","uid":"d","resourceVersion":"1","creationTimestamp":"{time}"}},"spec":{{"nodes":{{"names":[{names}]}},"cordon":"Never"}},"status":{{"requester":{{"user":"alice","time":"{time}"}},"pods":{{}},"nodes":[{drained}]}}}}"#
    )
}
