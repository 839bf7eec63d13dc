//! Problems of an object of `evacuation.dev`: those for which the server would refuse it.

use evacuation_api::{
    Evacuation, EvacuationResponder, NodeEvacuation, NodeEvacuationRule, api_version, default_evacuation,
    default_evacuation_responder, default_node_evacuation, default_node_evacuation_rule, default_owners,
    validate_evacuation, validate_evacuation_responder, validate_node_evacuation,
    validate_node_evacuation_rule,
};
use kube::Resource;
use machinery_merge::{DecodeError, Decoded, Parsed, Strictness, decode_parsed};
use machinery_validation::{FieldError, validate_metadata};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// User in whose name an entry counts that names no owner.
const SOMEBODY: &str = "you";

/// Returns the problems of an object of the group.
pub(super) fn kind_problems(value: &Value, version: &str, kind: &str) -> Vec<String> {
    if version != api_version() {
        return vec![format!("apiVersion: is not {}", api_version())];
    }
    match kind {
        "Evacuation" => problems(value, true, |evacuation: &mut Evacuation| {
            default_evacuation(evacuation);
            default_owners(evacuation, SOMEBODY);
            validate_evacuation(evacuation)
        }),
        "EvacuationResponder" => problems(value, true, |responder: &mut EvacuationResponder| {
            default_evacuation_responder(responder);
            validate_evacuation_responder(responder)
        }),
        "NodeEvacuation" => problems(value, false, |drain: &mut NodeEvacuation| {
            default_node_evacuation(drain);
            validate_node_evacuation(drain)
        }),
        "NodeEvacuationRule" => problems(value, false, |rule: &mut NodeEvacuationRule| {
            default_node_evacuation_rule(rule);
            validate_node_evacuation_rule(rule)
        }),
        _ => vec![format!("kind: {kind:?} is not a kind that can be created in evacuation.dev")],
    }
}

/// Returns every problem of an object: fields that the kind does not have, its metadata, and what `validate`
/// finds in it once it has its defaults.
fn problems<K>(
    value: &Value,
    is_namespaced: bool,
    validate: impl FnOnce(&mut K) -> Vec<FieldError>,
) -> Vec<String>
where
    K: DeserializeOwned + Resource,
{
    let decode = |strictness| {
        let parsed = Parsed { value: value.clone(), ..Parsed::default() };
        decode_parsed::<K>(parsed, strictness)
    };
    let mut found = match decode(Strictness::Strict) {
        Err(DecodeError::Strict { findings }) => findings,
        _ => Vec::new(),
    };
    let mut object = match decode(Strictness::Ignore) {
        Ok(Decoded { value, .. }) => value,
        Err(error) => {
            found.push(error.to_string());
            return found;
        }
    };
    let metadata = object.meta_mut();
    // The namespace is kubectl's, and the end of a generated name the server's.
    if is_namespaced {
        metadata.namespace.get_or_insert_with(|| "default".to_owned());
    }
    if let Some(prefix) = &metadata.generate_name {
        metadata.name.get_or_insert_with(|| format!("{prefix}x"));
    }
    let mut errors = validate_metadata(metadata, is_namespaced);
    errors.extend(validate(&mut object));
    found.extend(errors.iter().map(ToString::to_string));
    found
}
