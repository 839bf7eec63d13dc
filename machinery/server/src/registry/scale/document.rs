//! Scales from and to objects.

use k8s_openapi::{
    api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ScalePaths;
use crate::{ApiError, Reason};

/// Number of replicas, in a scale to be changed, of an object that has none.
const MISSING: i32 = i32::MIN;

/// Returns the scale of an object; no number of replicas when the object has none.
pub(super) fn scale_of(object: &Value, paths: ScalePaths) -> Scale {
    let number = |path: &str| at(object, path).and_then(Value::as_i64);
    let saturated =
        |number: i64| i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX });
    let meta = object.get("metadata").and_then(|metadata| ObjectMeta::deserialize(metadata).ok());
    let meta = meta.unwrap_or_default();
    let selector = paths.selector.and_then(|path| at(object, path)).and_then(Value::as_str);
    Scale {
        metadata: ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            creation_timestamp: meta.creation_timestamp,
            ..ObjectMeta::default()
        },
        spec: Some(ScaleSpec { replicas: number(paths.spec_replicas).map(saturated) }),
        status: Some(ScaleStatus {
            replicas: number(paths.status_replicas).map_or(0, saturated),
            selector: selector.filter(|selector| !selector.is_empty()).map(str::to_owned),
        }),
    }
}

/// Returns a scale as it is sent. As upstream, zero replicas are left out.
pub(super) fn sent(mut scale: Scale) -> Scale {
    scale.spec.get_or_insert_default().replicas.take_if(|replicas| *replicas == 0);
    scale
}

/// Marks the number of replicas of an object that has none, so that a change must set it.
pub(super) fn mark_missing(scale: &mut Scale) {
    scale.spec.get_or_insert_default().replicas.get_or_insert(MISSING);
}

/// Returns the number of replicas that a scale asks for. As upstream, no number is zero.
///
/// # Errors
///
/// `BadRequest` when the object has no number and the change sets none.
pub(super) fn wanted(scale: &Scale, paths: ScalePaths) -> Result<i32, ApiError> {
    let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
    if replicas == MISSING {
        let message = format!("the spec replicas field \".{}\" cannot be empty", paths.spec_replicas);
        return Err(ApiError::status(Reason::BadRequest, message));
    }
    Ok(replicas)
}

/// Returns the failure of reading the scale of an object without a number of replicas.
pub(super) fn no_replicas(paths: ScalePaths) -> ApiError {
    let why = format!("the spec replicas field \".{}\" does not exist", paths.spec_replicas);
    ApiError::internal("reading the scale", why)
}

/// Sets the number of replicas of an object.
///
/// # Errors
///
/// A field on the way is no object.
pub(super) fn set_replicas(object: &mut Value, paths: ScalePaths, replicas: i32) -> Result<(), ApiError> {
    let mut names: Vec<&str> = paths.spec_replicas.split('.').collect();
    let last = names.pop().unwrap_or_default();
    let mut place = object;
    for name in names {
        let fields = fields(place, paths)?;
        place = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    fields(place, paths)?.insert(last.to_owned(), replicas.into());
    Ok(())
}

/// Returns the numbers of replicas that are negative.
pub(super) fn problems(object: &Value, paths: ScalePaths) -> Vec<FieldError> {
    let negative = |path: &&str| at(object, path).and_then(Value::as_i64).is_some_and(|number| number < 0);
    let found = [paths.spec_replicas, paths.status_replicas].into_iter().filter(negative);
    let text = |path: &str| at(object, path).map(Value::to_string).unwrap_or_default();
    let problem = |path: &str| {
        let message = format!("{}: should be a non-negative integer", text(path));
        FieldError::new(FieldErrorKind::Invalid, &FieldPath::new(path), message)
    };
    found.map(problem).collect()
}

fn fields(place: &mut Value, paths: ScalePaths) -> Result<&mut Map<String, Value>, ApiError> {
    let why = format!("{} has a field that is no object", paths.spec_replicas);
    place.as_object_mut().ok_or_else(|| ApiError::internal("setting the number of replicas", why))
}

fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(object, |value, name| value.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATHS: ScalePaths = ScalePaths {
        spec_replicas: "spec.pool.size",
        status_replicas: "status.size",
        selector: Some("status.pods"),
    };

    #[test]
    fn a_scale_has_the_parts_that_the_paths_name() {
        let object = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"}},
            "spec": {"pool": {"size": 3}}, "status": {"size": 2, "pods": "app=a"},
        });
        let scale = serde_json::to_value(sent(scale_of(&object, PATHS))).expect("JSON");
        let expected = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "5"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=a"},
        });
        assert_eq!(scale, expected);
    }

    #[test]
    fn zero_replicas_are_left_out_and_missing_ones_must_be_set() {
        let zero = scale_of(&json!({"spec": {"pool": {"size": 0}}}), PATHS);
        assert_eq!(wanted(&zero, PATHS).expect("zero"), 0);
        let zero = serde_json::to_value(sent(zero)).expect("JSON");
        assert_eq!((&zero["spec"], &zero["status"]), (&json!({}), &json!({"replicas": 0})));

        let mut missing = scale_of(&json!({}), PATHS);
        assert_eq!(missing.spec.as_ref().and_then(|spec| spec.replicas), None);
        mark_missing(&mut missing);
        let error = wanted(&missing, PATHS).expect_err("none");
        assert_eq!(error.to_string(), "the spec replicas field \".spec.pool.size\" cannot be empty");
    }

    #[test]
    fn negative_numbers_of_replicas_are_problems() {
        let found = problems(&json!({"spec": {"pool": {"size": -1}}, "status": {"size": -2}}), PATHS);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let problem = |path: &str, number: i32| {
            format!("{path}: Invalid value: {number}: should be a non-negative integer")
        };
        assert_eq!(found, [problem("spec.pool.size", -1), problem("status.size", -2)]);
        assert_eq!(problems(&json!({"spec": {"pool": {"size": 0}}}), PATHS), []);
    }

    #[test]
    fn the_number_of_replicas_is_set_with_the_objects_around_it() {
        let mut object = json!({"spec": {"other": 1}});
        set_replicas(&mut object, PATHS, 4).expect("set");
        assert_eq!(object, json!({"spec": {"other": 1, "pool": {"size": 4}}}));
        assert!(set_replicas(&mut json!({"spec": 1}), PATHS, 4).is_err());
    }
}
