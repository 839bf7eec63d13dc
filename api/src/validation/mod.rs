//! Validation of one object: every problem, each with the path of its field.

mod endpoints;
mod evacuation;
mod evacuation_responder;
mod gateway_configuration;
mod negotiation_settings;
mod node_evacuation;
mod node_evacuation_rule;
mod object_reader;
mod responders;
mod response;
mod selector;
mod text;
mod window;

pub use endpoints::MAX_CA_BUNDLE_BYTES;
pub use evacuation::{
    MAX_CALLER_DELETES_SECONDS, MAX_OWNER_LENGTH, MAX_REQUESTERS, MAX_REQUESTERS_PER_OWNER,
    RESERVED_REQUESTERS, validate_evacuation, validate_evacuation_update,
};
pub use evacuation_responder::validate_evacuation_responder;
pub use gateway_configuration::validate_gateway_configuration;
pub use negotiation_settings::validate_negotiation_settings;
pub use node_evacuation::{
    MAX_DRAIN_NAME_LENGTH, MAX_PHASES, validate_node_evacuation, validate_node_evacuation_update,
};
pub use node_evacuation_rule::{
    MAX_MARKS, MAX_RULE_NAME_LENGTH, nodes_allowed, validate_node_evacuation_rule,
};
pub(crate) use responders::responder_errors;
pub use responders::{
    MAX_RESPONDERS, MAX_RESPONDERS_BYTES, ResponderParseError, parse_responders, validate_responders,
};
pub use response::validate_response;
pub use text::{
    MAX_DELAY_SECONDS, MAX_MESSAGE_LENGTH, MAX_REASON_LENGTH, is_dns_subdomain, is_qualified_name,
};
pub use window::{MAX_SCHEDULE_LENGTH, MAX_WINDOW_SECONDS, MIN_WINDOW_SECONDS};
