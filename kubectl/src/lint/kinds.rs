//! Problems of an object of `evacuation.dev` for which the server would refuse it, and those of a file for
//! which the gateway or the API server would not start.

use evacuation_api::{
    APISERVER_DOMAIN, Evacuation, EvacuationResponder, GATEWAY_DOMAIN, GatewayConfiguration,
    NegotiationSettingsFile, NodeEvacuation, NodeEvacuationRule, api_version, default_evacuation,
    default_evacuation_responder, default_node_evacuation, default_node_evacuation_rule, default_owners,
    validate_evacuation, validate_evacuation_responder, validate_gateway_configuration,
    validate_negotiation_settings, validate_node_evacuation, validate_node_evacuation_rule,
};
use kube::Resource;
use machinery_merge::{Inspected, Parsed, inspect, parse_yaml};
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
        "Evacuation" => object_problems(value, true, |evacuation: &mut Evacuation| {
            default_evacuation(evacuation);
            default_owners(evacuation, SOMEBODY);
            validate_evacuation(evacuation)
        }),
        "EvacuationResponder" => object_problems(value, true, |responder: &mut EvacuationResponder| {
            default_evacuation_responder(responder);
            validate_evacuation_responder(responder)
        }),
        "NodeEvacuation" => object_problems(value, false, |drain: &mut NodeEvacuation| {
            default_node_evacuation(drain);
            validate_node_evacuation(drain)
        }),
        "NodeEvacuationRule" => object_problems(value, false, |rule: &mut NodeEvacuationRule| {
            default_node_evacuation_rule(rule);
            validate_node_evacuation_rule(rule)
        }),
        _ => vec![format!("kind: {kind:?} is not a kind that can be created in evacuation.dev")],
    }
}

/// Returns the problems of a file with that text, which a process reads at its start. `None` for a file of
/// another group.
///
/// The process reads one document, without merge keys.
pub(super) fn file_problems(group: &str, text: &str) -> Option<Vec<String>> {
    let of_file: fn(Parsed) -> Vec<String> = match group {
        GATEWAY_DOMAIN => {
            |file| problems(file, |file: &mut GatewayConfiguration| validate_gateway_configuration(file))
        }
        APISERVER_DOMAIN => {
            |file| problems(file, |file: &mut NegotiationSettingsFile| validate_negotiation_settings(file))
        }
        _ => return None,
    };
    Some(parse_yaml(text.as_bytes()).map_or_else(|error| vec![error.to_string()], of_file))
}

/// Returns every problem of an object, with those of its metadata.
fn object_problems<K>(
    value: &Value,
    is_namespaced: bool,
    validate: impl FnOnce(&mut K) -> Vec<FieldError>,
) -> Vec<String>
where
    K: DeserializeOwned + Resource,
{
    // Fields that are given twice are problems of the document.
    let parsed = Parsed { value: value.clone(), ..Parsed::default() };
    problems(parsed, |object: &mut K| {
        let metadata = object.meta_mut();
        // The namespace is kubectl's, and the end of a generated name the server's.
        if is_namespaced {
            metadata.namespace.get_or_insert_with(|| "default".to_owned());
        }
        if let Some(prefix) = &metadata.generate_name {
            metadata.name.get_or_insert_with(|| format!("{prefix}x"));
        }
        let mut errors = validate_metadata(metadata, is_namespaced);
        errors.extend(validate(object));
        errors
    })
}

/// Returns every problem of a document: fields that its kind does not have, fields of a wrong type, and the
/// problems that `validate` finds in the others.
fn problems<K: DeserializeOwned>(
    document: Parsed,
    validate: impl FnOnce(&mut K) -> Vec<FieldError>,
) -> Vec<String> {
    let Inspected { value, mut findings, left_out } = inspect::<K>(document);
    let errors = value.map(|mut object| validate(&mut object)).unwrap_or_default();
    let own = errors.iter().filter(|error| !left_out.iter().any(|path| is_about(error, path)));
    findings.extend(own.map(ToString::to_string));
    findings
}

/// Returns true for an error that the lack of the field at `path` can have caused: one of that field, of a
/// field in it or around it, or one that names the field beside its own.
fn is_about(error: &FieldError, path: &str) -> bool {
    let field = error.field.to_string();
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let is_beside = field.rsplit_once('.').map_or("", |(parent, _)| parent) == parent;
    let mut words = error.message.split(|character: char| !character.is_alphanumeric());
    is_part(&field, path) || is_part(path, &field) || (is_beside && words.any(|word| word == name))
}

/// Returns true when the path of a field begins with that of another one, or is the same.
fn is_part(path: &str, beginning: &str) -> bool {
    path.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
