//! The responder whose turn it is. Pure.

use evacuation_api::{Evacuation, ResponderState, ResponderStatus};
use evacuation_protocol::state_word;
use kube::ResourceExt;

/// Returns the name of the responder that can answer now: the wanted one, or the Active one.
///
/// # Errors
///
/// No responder is Active, or not the wanted one.
pub(super) fn turn(evacuation: &Evacuation, wanted: Option<&str>) -> Result<String, String> {
    let name = format!("{}/{}", evacuation.namespace().unwrap_or_default(), evacuation.name_any());
    let responders: Vec<&ResponderStatus> =
        evacuation.status.iter().flat_map(|status| status.responders.iter().flatten()).collect();
    let active = responders.iter().find(|responder| responder.state == ResponderState::Active);
    let Some(wanted) = wanted else {
        return active.map(|active| active.name.clone()).ok_or_else(|| {
            let state = state_word(evacuation);
            format!("evacuation {name} has no active responder that could answer: it is {state}")
        });
    };
    let Some(responder) = responders.iter().find(|responder| responder.name == wanted) else {
        let names: Vec<_> = responders.iter().map(|responder| responder.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(format!("evacuation {name} has no responder {wanted}; its responders: {names}"));
    };
    if responder.state == ResponderState::Active {
        return Ok(wanted.to_owned());
    }
    let turn = active.map_or("no responder is active".to_owned(), |active| format!("{} is", active.name));
    Err(format!("responder {wanted} of evacuation {name} is not active but {:?}: {turn}", responder.state))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn evacuation(states: &[(&str, &str)]) -> Evacuation {
        let responder = |(name, state): &(&str, &str)| -> Value {
            json!({"name": name, "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": state})
        };
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop"}, "spec": {"target": {"pod": {"name": "db-0"}}},
            "status": {"responders": states.iter().map(responder).collect::<Vec<_>>()},
        }))
        .unwrap()
    }

    #[test]
    fn only_the_active_responder_answers() {
        let asking = evacuation(&[("a.b/c", "Active"), ("self", "Inactive")]);
        let done = evacuation(&[("self", "Completed")]);
        for (evacuation, wanted, expected) in [
            (&asking, None, Ok("a.b/c")),
            (&asking, Some("a.b/c"), Ok("a.b/c")),
            (
                &asking,
                Some("self"),
                Err("responder self of evacuation shop/a is not active but Inactive: a.b/c is"),
            ),
            (
                &asking,
                Some("x.y/z"),
                Err("evacuation shop/a has no responder x.y/z; its responders: a.b/c, self"),
            ),
            (&done, None, Err("evacuation shop/a has no active responder that could answer: it is ")),
            (&done, Some("self"), Err("not active but Completed: no responder is active")),
        ] {
            match (turn(evacuation, wanted), expected) {
                (Ok(name), Ok(expected)) => assert_eq!(name, expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }
}
