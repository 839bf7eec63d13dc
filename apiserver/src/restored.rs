//! New objects that were restored from a backup: to restore an object is not to ask for its work again.
//!
//! The annotation of `kubectl apply` is no sign: each object that was applied once has it.

use std::fmt;

use evacuation_api::{
    ConditionType, DRAIN_FINALIZER, DrainConditionType, Evacuation, NodeEvacuation, NodeEvacuationRule,
    NodeEvacuationStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_server::RequestContext;
use machinery_validation::{FieldError, FieldPath};

/// Labels that Velero sets on each object that it restores. Source: "Detailed restore workflow" in Velero's
/// restore reference.
const RESTORE_LABELS: [&str; 2] = ["velero.io/restore-name", "velero.io/backup-name"];

/// Sign that a new object was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// A backup tool set this label.
    Label(&'static str),
    /// The status that the caller sent is that of finished work.
    FinishedStatus,
    /// The caller sent the status of work in progress. Nobody knows how long ago that was.
    Status,
    /// The finalizer of the server is there, and the status was removed: nobody knows whether it was
    /// finished.
    Finalizer,
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "the label {label} says that it was restored from a backup"),
            Self::FinishedStatus => f.write_str("the status that was sent says that it has ended before"),
            Self::Status => f.write_str("the status that was sent says that it was in progress before"),
            Self::Finalizer => write!(
                f,
                "the finalizer {DRAIN_FINALIZER} was sent without a status, which says that it was stored before"
            ),
        }
    }
}

/// Pauses a new drain that was restored, and warns the caller. It reads the status that the caller sent.
pub(crate) fn pause_drain(context: &RequestContext, drain: &mut NodeEvacuation) {
    if let Some(sign) = sign_of(drain) {
        drain.spec.paused = true;
        warn(context, "nodeevacuation", &drain.metadata, sign);
    }
}

/// Pauses a new rule that was restored, and warns the caller. A rule never ends: only a label tells.
pub(crate) fn pause_rule(context: &RequestContext, rule: &mut NodeEvacuationRule) {
    if let Some(label) = restore_labels(&rule.metadata).next() {
        rule.spec.paused = true;
        warn(context, "nodeevacuationrule", &rule.metadata, Sign::Label(label));
    }
}

/// Returns true when the status of an Evacuation is that of finished work.
pub(crate) fn has_ended(evacuation: &Evacuation) -> bool {
    evacuation.status.as_ref().is_some_and(|status| {
        [ConditionType::Finished, ConditionType::Evacuated].into_iter().any(|end| status.is_true(end))
    })
}

/// Returns the problems of a new Evacuation that was restored. It cannot be paused, so it is refused.
pub(crate) fn problems(evacuation: &Evacuation) -> Vec<FieldError> {
    let labels = FieldPath::new("metadata").child("labels");
    let mut problems: Vec<FieldError> = restore_labels(&evacuation.metadata)
        .map(|label| {
            let message = "a restored evacuation asks for nothing: to ask for its pod, remove this label";
            FieldError::forbidden(&labels.key(label), message)
        })
        .collect();
    if has_ended(evacuation) {
        let message = "an evacuation that has ended asks for nothing: to ask for its pod, remove the status";
        problems.push(FieldError::forbidden(&FieldPath::new("status"), message));
    }
    problems
}

fn sign_of(drain: &NodeEvacuation) -> Option<Sign> {
    if let Some(label) = restore_labels(&drain.metadata).next() {
        return Some(Sign::Label(label));
    }
    // An empty status is that of a client that writes each field, one with a plan is the reply to a dry run.
    if let Some(status) = drain.status.as_ref().filter(|status| **status != NodeEvacuationStatus::default()) {
        let mut ends = [DrainConditionType::Finished, DrainConditionType::Drained].into_iter();
        if ends.any(|end| status.is_true(end)) {
            return Some(Sign::FinishedStatus);
        }
        return status.plan.is_empty().then_some(Sign::Status);
    }
    let mut finalizers = drain.metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == DRAIN_FINALIZER).then_some(Sign::Finalizer)
}

/// Returns the labels of a backup tool that an object has.
fn restore_labels(metadata: &ObjectMeta) -> impl Iterator<Item = &'static str> {
    let labels = metadata.labels.as_ref();
    RESTORE_LABELS.into_iter().filter(move |label| labels.is_some_and(|labels| labels.contains_key(*label)))
}

fn warn(context: &RequestContext, kind: &str, metadata: &ObjectMeta, sign: Sign) {
    let name = metadata.name.as_deref().unwrap_or_default();
    context
        .warnings
        .add(format!("{kind} {name} is created paused: {sign}. To start it, set spec.paused to false"));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The conditions of these types with that status.
    fn conditions(kinds: &[&str], status: &str) -> Value {
        let condition = |kind: &&str| {
            json!({"type": kind, "status": status, "reason": "R", "message": "",
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        json!({"conditions": kinds.iter().map(condition).collect::<Vec<_>>()})
    }

    fn drain(metadata: &Value, status: &Value) -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": metadata, "spec": {"nodes": {"names": ["a"]}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_drain_is_paused_by_a_status_a_label_or_a_finalizer_and_not_by_the_reply_to_a_dry_run() {
        let label = |label: &str| json!({"name": "d", "labels": {label: "nightly"}});
        let stored = json!({"name": "d", "finalizers": [DRAIN_FINALIZER]});
        let applied = json!({"name": "d", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": r#"{"status":{"verdict":"Drained"}}"#}});
        let plain = json!({"name": "d", "labels": {"app": "x"}, "finalizers": ["example.com/mine"]});
        let ended = conditions(&["Finished", "Drained"], "True");
        let running = conditions(&["Finished", "Drained"], "False");
        let planned = json!({"uid": "u", "node": "a", "pod": "shop/db-0", "act": "Ask"});
        let dry_run = json!({"verdict": "Slow", "plan": [planned]});
        let [restore, backup] = RESTORE_LABELS.map(Sign::Label);
        for (metadata, status, sign) in [
            (&plain, &ended, Some(Sign::FinishedStatus)),
            (&plain, &conditions(&["Drained"], "True"), Some(Sign::FinishedStatus)),
            (&plain, &conditions(&["Finished", "Failed"], "True"), Some(Sign::FinishedStatus)),
            (&label("velero.io/restore-name"), &json!(null), Some(restore)),
            (&label("velero.io/backup-name"), &json!(null), Some(backup)),
            (&label("velero.io/restore-name"), &ended, Some(restore)),
            (&label("velero.io/restore-name"), &running, Some(restore)),
            (&label("velero.io/exclude-from-backup"), &json!(null), None),
            (&stored, &ended, Some(Sign::FinishedStatus)),
            (&stored, &json!(null), Some(Sign::Finalizer)),
            (&stored, &json!({}), Some(Sign::Finalizer)),
            (&stored, &running, Some(Sign::Status)),
            (&plain, &running, Some(Sign::Status)),
            (&plain, &json!({"verdict": "Slow"}), Some(Sign::Status)),
            (&stored, &dry_run, None),
            (&plain, &json!({}), None),
            (&plain, &json!(null), None),
            (&applied, &json!(null), None),
        ] {
            let mut drain = drain(metadata, status);
            assert_eq!(sign_of(&drain), sign, "{metadata} {status}");
            let context = RequestContext::default();
            pause_drain(&context, &mut drain);
            assert_eq!(drain.spec.paused, sign.is_some(), "{metadata} {status}");
            assert_eq!(context.warnings.all().len(), usize::from(sign.is_some()), "{metadata} {status}");
        }
    }

    #[test]
    fn the_warning_names_the_drain_the_cause_and_the_way_to_start_it() {
        let context = RequestContext::default();
        let metadata = json!({"name": "d", "labels": {"velero.io/restore-name": "nightly"}});
        pause_drain(&context, &mut drain(&metadata, &json!(null)));
        assert_eq!(
            context.warnings.all(),
            [
                "nodeevacuation d is created paused: the label velero.io/restore-name says that it was restored \
              from a backup. To start it, set spec.paused to false"
            ]
        );
    }

    #[test]
    fn a_restored_evacuation_is_refused_at_each_field_that_tells() {
        let both = json!({"velero.io/restore-name": "r", "velero.io/backup-name": "b"});
        let fields = ["metadata.labels[velero.io/restore-name]", "metadata.labels[velero.io/backup-name]"];
        let ended = conditions(&["Finished", "Failed"], "True");
        for (labels, status, expected) in [
            (json!({}), &ended, vec!["status"]),
            (json!({}), &conditions(&["Evacuated"], "True"), vec!["status"]),
            (both.clone(), &json!(null), fields.to_vec()),
            (both, &ended, vec![fields[0], fields[1], "status"]),
            (json!({}), &conditions(&["Finished", "Evacuated"], "False"), vec![]),
            (json!({"app": "x"}), &json!(null), vec![]),
        ] {
            let evacuation: Evacuation = serde_json::from_value(json!({
                "metadata": {"name": "e", "labels": labels}, "spec": {"target": {"pod": {"name": "p"}}},
                "status": status,
            }))
            .unwrap();
            let problems = problems(&evacuation);
            let named: Vec<String> = problems.iter().map(|problem| problem.field.to_string()).collect();
            assert_eq!(named, expected, "{labels} {status}");
        }
    }

    #[test]
    fn a_rule_is_paused_by_a_label_alone() {
        for (labels, paused) in [(json!({"velero.io/backup-name": "b"}), true), (json!({"app": "x"}), false)]
        {
            let mut rule: NodeEvacuationRule = serde_json::from_value(json!({
                "metadata": {"name": "r", "labels": labels, "finalizers": ["drain.evacuation.dev/close"]},
                "spec": {"marks": [{"taint": {"key": "example.com/spot"}}]},
            }))
            .unwrap();
            let context = RequestContext::default();
            pause_rule(&context, &mut rule);
            assert_eq!((rule.spec.paused, context.warnings.all().len()), (paused, usize::from(paused)));
        }
    }
}
