//! Opt-in of a pod: its thresholds, from its annotations and those of its namespace.

use chrono::TimeDelta;
use evacuation_api::{
    AnnotationValueError, REFRESH_AFTER_ANNOTATION as AFTER,
    REFRESH_AFTER_RESTARTS_ANNOTATION as AFTER_RESTARTS, REFRESH_ENABLED_ANNOTATION as ENABLED,
    parse_duration, parse_refresh_after_restarts, parse_refresh_enabled,
};
use kube::core::ObjectMeta;

/// Thresholds of a namespace that is labelled and names none.
const DEFAULT: Thresholds = Thresholds { restarts: Some(10), time: Some(TimeDelta::minutes(30)) };

/// Thresholds of a pod. One of them is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Number of restarts of the container in a crash loop.
    pub(super) restarts: Option<i32>,
    /// Time in the crash loop.
    pub(super) time: Option<TimeDelta>,
}

/// Opt-in of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OptIn {
    /// The pod has not opted in.
    LeaveAlone,
    /// The pod is refreshed when a threshold is reached.
    Refresh(Thresholds),
    /// The pod is not refreshed because an annotation cannot be read.
    Unreadable(Unreadable),
}

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the annotation {annotation} of {} cannot be read: {error}", if *.of_namespace { "the namespace" } else { "the pod" })]
pub(crate) struct Unreadable {
    annotation: &'static str,
    /// True for an annotation of the namespace.
    pub(super) of_namespace: bool,
    error: AnnotationValueError,
}

/// Returns the opt-in of a pod. The pod's annotations come before its namespace's. A pod that names one
/// threshold is judged by its own thresholds only.
pub(crate) fn opt_in(pod: &ObjectMeta, namespace: Option<&ObjectMeta>) -> OptIn {
    let enabled = match annotation(pod, ENABLED).map(parse_refresh_enabled).transpose() {
        Ok(Some(false)) => return OptIn::LeaveAlone,
        Ok(enabled) => enabled.is_some(),
        Err(error) => {
            return OptIn::Unreadable(Unreadable { annotation: ENABLED, of_namespace: false, error });
        }
    };
    let own = match thresholds(pod, false) {
        Ok(own) => own,
        Err(unreadable) => return OptIn::Unreadable(unreadable),
    };
    if let Some(own) = own {
        return OptIn::Refresh(own);
    }
    if !enabled && !namespace.is_some_and(is_labelled) {
        return OptIn::LeaveAlone;
    }
    match namespace.map_or(Ok(None), |namespace| thresholds(namespace, true)) {
        Ok(thresholds) => OptIn::Refresh(thresholds.unwrap_or(DEFAULT)),
        Err(unreadable) => OptIn::Unreadable(unreadable),
    }
}

fn is_labelled(namespace: &ObjectMeta) -> bool {
    let labels = namespace.labels.as_ref();
    labels.and_then(|all| all.get(ENABLED)).is_some_and(|value| value == "true")
}

/// Returns the thresholds that an object names. `None` if it names none.
fn thresholds(object: &ObjectMeta, of_namespace: bool) -> Result<Option<Thresholds>, Unreadable> {
    let unreadable = |annotation| move |error| Unreadable { annotation, of_namespace, error };
    let restarts = annotation(object, AFTER_RESTARTS).map(parse_refresh_after_restarts).transpose();
    let restarts = restarts.map_err(unreadable(AFTER_RESTARTS))?;
    let time = annotation(object, AFTER).map(parse_duration).transpose().map_err(unreadable(AFTER))?;
    let named = restarts.is_some() || time.is_some();
    Ok(named.then_some(Thresholds { restarts, time }))
}

fn annotation<'a>(object: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    object.annotations.as_ref()?.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: &Value) -> ObjectMeta {
        serde_json::from_value(value.clone()).unwrap()
    }

    enum Expected {
        LeftAlone,
        /// After so many restarts or minutes.
        Refreshed(Option<i32>, Option<i64>),
        /// Beginning of the message.
        Told(&'static str),
    }
    use Expected::{LeftAlone, Refreshed, Told};

    #[test]
    fn what_the_pod_says_comes_before_what_its_namespace_says() {
        let (on, off) = (json!({"labels": {ENABLED: "true"}}), json!({}));
        let with_numbers =
            json!({"labels": {ENABLED: "true"}, "annotations": {AFTER_RESTARTS: "7", AFTER: "5m"}});
        let numbers_only = json!({"annotations": {AFTER_RESTARTS: "7"}});
        let broken = json!({"labels": {ENABLED: "true"}, "annotations": {AFTER: "soon"}});
        let odd = json!({"labels": {ENABLED: "yes"}});
        let table: Vec<(Value, &Value, Expected)> = vec![
            (json!({}), &off, LeftAlone),
            (json!({AFTER_RESTARTS: "5"}), &off, Refreshed(Some(5), None)),
            (json!({AFTER: "10m"}), &off, Refreshed(None, Some(10))),
            (json!({AFTER_RESTARTS: "5", AFTER: "10m"}), &off, Refreshed(Some(5), Some(10))),
            (json!({}), &on, Refreshed(Some(10), Some(30))),
            (json!({}), &with_numbers, Refreshed(Some(7), Some(5))),
            (json!({AFTER_RESTARTS: "5"}), &with_numbers, Refreshed(Some(5), None)),
            (json!({ENABLED: "false"}), &with_numbers, LeftAlone),
            (json!({ENABLED: "false", AFTER_RESTARTS: "5"}), &on, LeftAlone),
            (json!({ENABLED: "true"}), &off, Refreshed(Some(10), Some(30))),
            (json!({ENABLED: "true"}), &numbers_only, Refreshed(Some(7), None)),
            (json!({}), &numbers_only, LeftAlone),
            (json!({}), &odd, LeftAlone),
            (json!({AFTER_RESTARTS: "5"}), &broken, Refreshed(Some(5), None)),
            (
                json!({}),
                &broken,
                Told("the annotation refresh.evacuation.dev/after of the namespace cannot be read: \"soon\""),
            ),
            (
                json!({ENABLED: "no"}),
                &on,
                Told("the annotation refresh.evacuation.dev/enabled of the pod cannot be read: \"no\""),
            ),
            (
                json!({AFTER: "10"}),
                &on,
                Told("the annotation refresh.evacuation.dev/after of the pod cannot be read: \"10\""),
            ),
        ];
        for (annotations, namespace, expected) in table {
            let pod = object(&json!({"annotations": annotations}));
            match (opt_in(&pod, Some(&object(namespace))), expected) {
                (OptIn::LeaveAlone, LeftAlone) => {}
                (OptIn::Refresh(found), Refreshed(restarts, minutes)) => {
                    let found = (found.restarts, found.time.map(|time| time.num_minutes()));
                    assert_eq!(found, (restarts, minutes), "{annotations}");
                }
                (OptIn::Unreadable(found), Told(expected)) => {
                    assert!(found.to_string().starts_with(expected), "{found}");
                }
                (found, _) => panic!("{annotations}, {namespace}: {found:?}"),
            }
        }
    }

    #[test]
    fn numbers_of_restarts_that_are_none_are_unreadable() {
        for text in ["0", "-1", "five", "", "5.5", "99999999999"] {
            let pod = object(&json!({"annotations": {AFTER_RESTARTS: text}}));
            assert!(matches!(opt_in(&pod, None), OptIn::Unreadable(_)), "{text:?}");
        }
    }

    #[test]
    fn a_pod_whose_namespace_is_not_known_is_judged_by_itself() {
        assert_eq!(opt_in(&ObjectMeta::default(), None), OptIn::LeaveAlone);
    }
}
