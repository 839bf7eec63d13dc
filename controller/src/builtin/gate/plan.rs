//! Plan of the gate for one pod.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, Evacuation, GATE_ASKED_ANNOTATION, GATE_CONDITION_TYPE_ANNOTATION, GATE_MESSAGE_ANNOTATION,
    GATE_OPEN_ANNOTATION, GATE_OPEN_CONDITION, GATE_RESPONDER, parse_gate_name, parse_gate_open,
};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    builtin::{
        part::{Part, Renewal},
        patch::PodChange,
        reply::{Reply, fitting},
    },
    cluster::is_finished,
};

/// Plan of the gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GatePlan {
    /// Reply to post.
    pub(super) reply: Option<Reply>,
    /// Change of the pod.
    pub(super) change: Option<PodChange>,
    /// Time of the next look if nothing changes before.
    pub(super) wake_at: Option<DateTime<Utc>>,
}

/// State of a pod's gate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gate {
    /// The pod may go, for that reason.
    Open(String),
    /// The app has not decided yet.
    Closed,
    /// The pod must not go, for that reason.
    Shut(String),
}

/// Returns the plan for a pod. `evacuations` are those that target it.
///
/// The annotation is written before the reply is posted, and removed when no Evacuation asks any more.
pub(super) fn plan<'a>(
    pod: &Pod,
    evacuations: impl IntoIterator<Item = &'a Evacuation>,
    now: DateTime<Utc>,
) -> GatePlan {
    if pod.metadata.deletion_timestamp.is_some() {
        return GatePlan::default();
    }
    let uid = pod.metadata.uid.as_deref();
    let told = annotation(pod, GATE_ASKED_ANNOTATION);
    // An Evacuation whose responder accepted or was interrupted is still in progress.
    let part =
        evacuations.into_iter().filter_map(|evacuation| Part::of(evacuation, GATE_RESPONDER)).find(|part| {
            part.targets(uid) && part.responder.active_time.is_some() && !is_finished(part.evacuation)
        });
    let Some(part) = part else {
        return GatePlan {
            change: told.map(|_| PodChange::default().annotation(GATE_ASKED_ANNOTATION, None)),
            ..GatePlan::default()
        };
    };
    let change = (told != Some(part.name()))
        .then(|| PodChange::default().annotation(GATE_ASKED_ANNOTATION, Some(part.name())));
    let answered = match gate(pod, part.name()) {
        _ if !part.is_active() || part.responder.answer == Some(Answer::Accept) => GatePlan::default(),
        Gate::Open(message) => said(Reply::Accept { reason: "GateOpen", message }),
        Gate::Shut(message) => {
            let refusal = Reply::Refuse { reason: "GateShut", message: fitting(&message), retry_after: None };
            GatePlan { reply: refusal.due(part, now).0, ..GatePlan::default() }
        }
        Gate::Closed => delay(part, pod, now),
    };
    GatePlan { change, ..answered }
}

fn gate(pod: &Pod, evacuation: &str) -> Gate {
    let kind = condition_type(pod);
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == kind && condition.status == "True");
    let open = annotation(pod, GATE_OPEN_ANNOTATION).map(parse_gate_name);
    match (open, open.and_then(|open| parse_gate_open(open).ok())) {
        (_, Some(false)) => Gate::Shut(
            annotation(pod, GATE_MESSAGE_ANNOTATION)
                .unwrap_or("the pod's annotation gate.evacuation.dev/open is false")
                .to_owned(),
        ),
        (_, Some(true)) => Gate::Open(format!("the pod's annotation {GATE_OPEN_ANNOTATION} is true")),
        (Some(open), None) if open == evacuation => {
            Gate::Open(format!("the pod's annotation {GATE_OPEN_ANNOTATION} is {open}"))
        }
        _ if condition.is_some() => Gate::Open(format!("the pod's condition {kind} is True")),
        _ => Gate::Closed,
    }
}

/// The message of a delay. It names a value of the annotation that opens nothing: it can be a mistake, such
/// as `yes`.
fn waiting(pod: &Pod) -> String {
    let kind = condition_type(pod);
    let message = format!("waiting for the pod's condition {kind} or its annotation {GATE_OPEN_ANNOTATION}");
    match annotation(pod, GATE_OPEN_ANNOTATION) {
        Some(open) => {
            let open = fitting(&format!("{open:?}"));
            format!("{message}, whose value {open} is neither true nor false nor the name of this evacuation")
        }
        None => message,
    }
}

fn condition_type(pod: &Pod) -> &str {
    annotation(pod, GATE_CONDITION_TYPE_ANNOTATION).map_or(GATE_OPEN_CONDITION, parse_gate_name)
}

fn delay(part: Part<'_>, pod: &Pod, now: DateTime<Utc>) -> GatePlan {
    match part.renewal(now) {
        Renewal::Due => said(Reply::Delay { reason: "GateClosed", message: waiting(pod) }),
        Renewal::At(time) => GatePlan { wake_at: Some(time), ..GatePlan::default() },
        Renewal::Exhausted => GatePlan::default(),
    }
}

fn said(reply: Reply) -> GatePlan {
    GatePlan { reply: Some(reply), ..GatePlan::default() }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin::testing::{at, ended, evacuation, time};

    fn pod(annotations: &Value, conditions: &[(&str, &str)]) -> Pod {
        let conditions: Vec<Value> =
            conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "p1", "annotations": annotations},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn word(pod: &Pod, evacuations: &[Evacuation]) -> String {
        let plan = plan(pod, evacuations, at(10));
        let told = plan.change.map(|change| match &change.annotations[GATE_ASKED_ANNOTATION] {
            Some(name) => format!("tell {name}, "),
            None => "untell, ".to_owned(),
        });
        let said = match plan.reply {
            None => "say nothing".to_owned(),
            Some(Reply::Accept { message, .. }) => format!("accept: {message}"),
            Some(Reply::Delay { message, .. }) => format!("delay: {message}"),
            Some(Reply::Refuse { message, .. }) => format!("refuse: {message}"),
            Some(Reply::Acknowledge) => "acknowledge".to_owned(),
        };
        format!("{}{said}", told.unwrap_or_default())
    }

    #[test]
    fn the_pod_is_told_and_its_gate_is_the_answer() {
        let asked = |patch: &Value| vec![evacuation("e", GATE_RESPONDER, patch)];
        let told = |more: &Value| {
            let mut all = json!({GATE_ASKED_ANNOTATION: "e"});
            crate::builtin::testing::merge(&mut all, more);
            pod(&all, &[])
        };
        let waiting = "delay: waiting for the pod's condition gate.evacuation.dev/Open or its annotation gate.evacuation.dev/open";
        let delayed = json!({"answer": "Delay", "delayUntil": time(120)});
        let refused = json!({"answer": "Refuse", "answerTime": time(1), "message": "a backup runs"});
        let shut = json!({GATE_OPEN_ANNOTATION: "false", GATE_MESSAGE_ANNOTATION: "a backup runs"});
        let over = |state: &str| vec![ended("e", GATE_RESPONDER, "Failed", &json!({"state": state}))];
        let table = vec![
            (pod(&json!({}), &[]), vec![], "say nothing".to_owned()),
            (pod(&json!({}), &[]), asked(&json!({})), format!("tell e, {waiting}")),
            (told(&json!({})), asked(&json!({})), waiting.to_owned()),
            (told(&json!({})), asked(&delayed), "say nothing".to_owned()),
            (
                told(&json!({GATE_OPEN_ANNOTATION: "true"})),
                asked(&delayed),
                "accept: the pod's annotation gate.evacuation.dev/open is true".to_owned(),
            ),
            (
                told(&json!({GATE_OPEN_ANNOTATION: "e"})),
                asked(&delayed),
                "accept: the pod's annotation gate.evacuation.dev/open is e".to_owned(),
            ),
            (told(&json!({GATE_OPEN_ANNOTATION: "earlier"})), asked(&delayed), "say nothing".to_owned()),
            (
                pod(&json!({GATE_ASKED_ANNOTATION: "e"}), &[("gate.evacuation.dev/Open", "True")]),
                asked(&delayed),
                "accept: the pod's condition gate.evacuation.dev/Open is True".to_owned(),
            ),
            (
                pod(&json!({GATE_ASKED_ANNOTATION: "e"}), &[("gate.evacuation.dev/Open", "False")]),
                asked(&delayed),
                "say nothing".to_owned(),
            ),
            (
                pod(
                    &json!({GATE_ASKED_ANNOTATION: "e", GATE_CONDITION_TYPE_ANNOTATION: "acme.io/Saved"}),
                    &[("gate.evacuation.dev/Open", "True"), ("acme.io/Saved", "False")],
                ),
                asked(&delayed),
                "say nothing".to_owned(),
            ),
            (
                pod(
                    &json!({GATE_ASKED_ANNOTATION: "e", GATE_CONDITION_TYPE_ANNOTATION: "acme.io/Saved"}),
                    &[("acme.io/Saved", "True")],
                ),
                asked(&delayed),
                "accept: the pod's condition acme.io/Saved is True".to_owned(),
            ),
            (told(&shut), asked(&delayed), "refuse: a backup runs".to_owned()),
            (
                told(&json!({GATE_OPEN_ANNOTATION: "yes"})),
                asked(&json!({})),
                format!(
                    "{waiting}, whose value \"yes\" is neither true nor false nor the name of this evacuation"
                ),
            ),
            (told(&shut), asked(&refused), "say nothing".to_owned()),
            (
                told(&json!({GATE_OPEN_ANNOTATION: "false"})),
                asked(&refused),
                "refuse: the pod's annotation gate.evacuation.dev/open is false".to_owned(),
            ),
            (told(&json!({})), asked(&refused), waiting.to_owned()),
            (
                told(&json!({GATE_OPEN_ANNOTATION: "true"})),
                asked(&json!({"answer": "Accept"})),
                "say nothing".to_owned(),
            ),
            (told(&json!({})), asked(&json!({"state": "Interrupted"})), "say nothing".to_owned()),
            (told(&json!({})), over("Canceled"), "untell, say nothing".to_owned()),
            (told(&json!({})), vec![], "untell, say nothing".to_owned()),
            (
                told(&json!({})),
                vec![
                    ended("e", GATE_RESPONDER, "Failed", &json!({"state": "Canceled"})),
                    evacuation("f", GATE_RESPONDER, &json!({})),
                ],
                format!("tell f, {waiting}"),
            ),
            (pod(&json!({}), &[]), vec![evacuation("e", "a.b/other", &json!({}))], "say nothing".to_owned()),
        ];
        for (pod, evacuations, expected) in table {
            assert_eq!(word(&pod, &evacuations), expected, "{:?} {evacuations:?}", pod.metadata.annotations);
        }
    }

    #[test]
    fn the_condition_of_the_gate_is_named_with_and_without_quotes() {
        for kind in ["acme.io/Saved", "\"acme.io/Saved\"", " acme.io/Saved\n"] {
            let annotations = json!({GATE_ASKED_ANNOTATION: "e", GATE_CONDITION_TYPE_ANNOTATION: kind});
            let evacuations = [evacuation("e", GATE_RESPONDER, &json!({}))];
            let open = pod(&annotations, &[("acme.io/Saved", "True")]);
            let expected = "accept: the pod's condition acme.io/Saved is True";
            assert_eq!(word(&open, &evacuations), expected, "{kind:?}");
            let expected = "delay: waiting for the pod's condition acme.io/Saved or its annotation \
                            gate.evacuation.dev/open";
            assert_eq!(word(&pod(&annotations, &[]), &evacuations), expected, "{kind:?}");
        }
    }

    #[test]
    fn the_gate_is_read_as_it_is_written() {
        let (open, refuse) = ("accept: the pod's annotation gate.evacuation.dev/open is", "refuse: shut");
        for (value, expected) in [
            ("true", format!("{open} true")),
            ("True", format!("{open} true")),
            (" TRUE\n", format!("{open} true")),
            ("\"true\"", format!("{open} true")),
            (" e\n", format!("{open} e")),
            ("\"e\"", format!("{open} e")),
            ("False", refuse.to_owned()),
            ("\u{feff}false", refuse.to_owned()),
            ("\"FALSE\"", refuse.to_owned()),
            ("E", "say nothing".to_owned()),
            ("yes", "say nothing".to_owned()),
            ("1", "say nothing".to_owned()),
        ] {
            let annotations = json!({GATE_ASKED_ANNOTATION: "e", GATE_OPEN_ANNOTATION: value, GATE_MESSAGE_ANNOTATION: "shut"});
            let pod = pod(&annotations, &[]);
            let delayed = json!({"answer": "Delay", "delayUntil": time(120)});
            let evacuation = evacuation("e", GATE_RESPONDER, &delayed);
            assert_eq!(word(&pod, &[evacuation]), expected, "{value:?}");
        }
    }
}
