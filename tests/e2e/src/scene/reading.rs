//! Parts of an Evacuation's status.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus, ResponderStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The status; an empty one when the Evacuation has none yet.
pub fn status(evacuation: &Evacuation) -> EvacuationStatus {
    evacuation.status.clone().unwrap_or_default()
}

/// The responders, in the order in which they are asked.
pub fn responders(evacuation: &Evacuation) -> Vec<ResponderStatus> {
    status(evacuation).responders.unwrap_or_default()
}

/// The responder at that place.
pub fn responder(evacuation: &Evacuation, place: usize) -> Option<&ResponderStatus> {
    evacuation.status.as_ref()?.responders.as_ref()?.get(place)
}

/// The first responder.
pub fn first(evacuation: &Evacuation) -> &ResponderStatus {
    responder(evacuation, 0).expect("it has a responder")
}

/// The responder of that name.
pub fn responder_named<'a>(evacuation: &'a Evacuation, name: &str) -> &'a ResponderStatus {
    let mut all = evacuation.status.iter().filter_map(|status| status.responders.as_ref()).flatten();
    all.find(|responder| responder.name == name).expect("it has that responder")
}

/// The names of responders.
pub fn names(responders: &[ResponderStatus]) -> Vec<&str> {
    responders.iter().map(|responder| responder.name.as_str()).collect()
}

/// The condition of that type.
pub fn condition<'a>(evacuation: &'a Evacuation, kind: &str) -> Option<&'a Condition> {
    let conditions = &evacuation.status.as_ref()?.conditions;
    conditions.iter().find(|c| c.type_ == kind)
}

/// The end, if there is one: `Evacuated Evicted`, `Failed Refused`.
pub fn end_of(evacuation: &Evacuation) -> Option<String> {
    condition(evacuation, "Finished")?;
    ["Evacuated", "Failed"].into_iter().find_map(|kind| {
        let found = condition(evacuation, kind).filter(|c| c.status == "True")?;
        Some(format!("{kind} {}", found.reason))
    })
}

/// The end of the delay that the server granted the first responder.
pub fn delay_end(evacuation: &Evacuation) -> DateTime<Utc> {
    first(evacuation).delay_until.expect("a delay was granted").0
}
