//! The single way of a status into an object: every change passes the transition tables (rule 6).

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus};
use evacuation_protocol::{Actor, check_transition};
use machinery_server::ApiError;

use crate::refusal;

/// Sets the status of `object`, if the tables let that actor change `before` into `after`.
pub(crate) fn commit(
    object: &mut Evacuation,
    before: Option<&EvacuationStatus>,
    after: EvacuationStatus,
    by: Actor,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    if let Err(error) = check_transition(before, &after, by) {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        return Err(refusal::status(name, &[error], now));
    }
    object.status = Some(after);
    Ok(())
}

#[cfg(test)]
mod tests {
    use evacuation_api::{ResponderState, ResponderStatus};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_that_the_tables_do_not_have_is_stored_for_no_actor() {
        let status = |state| {
            let responder: ResponderStatus = serde_json::from_value(json!({
                "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60, "state": state,
            }))
            .unwrap();
            EvacuationStatus { responders: Some(vec![responder]), ..EvacuationStatus::default() }
        };
        let object: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "e"}, "spec": {"target": {"pod": {"name": "p"}}},
        }))
        .unwrap();
        for actor in [Actor::Server, Actor::Controller, Actor::Responder] {
            let (before, after) = (status(ResponderState::Active), status(ResponderState::Inactive));
            let mut changed = object.clone();
            let error = commit(&mut changed, Some(&before), after, actor, Utc::now()).unwrap_err();
            assert!(
                error.to_string().contains("the transition table does not have it"),
                "{actor:?}: {error}"
            );
            assert!(changed.status.is_none(), "{actor:?}");
            commit(&mut changed, Some(&before), before.clone(), actor, Utc::now()).unwrap();
            assert_eq!(changed.status, Some(before));
        }
    }
}
