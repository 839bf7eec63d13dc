//! Fuzz targets: one for each parser that reads bytes from outside, and one for the decisions of the gateway.
//!
//! A target panics when a property does not hold; not to panic is the least of them. `cargo xtask fuzz` runs
//! the targets under libFuzzer, and the test `corpus` runs each on the inputs that earlier runs found.

#![allow(clippy::indexing_slicing, clippy::panic, reason = "a target fails by panic")]

mod bodies;
mod expressions;
mod files;
mod identity;
mod managed_fields;
mod patches;
mod replies;
mod requests;
mod responders;
mod reviews;
mod times;

/// Fuzz target.
pub struct Target {
    /// Name of the target and of the folder with its inputs.
    pub name: &'static str,
    /// Runs the target on one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "accept_header", run: requests::accept_header },
    Target { name: "admission_review", run: reviews::admission_review },
    Target { name: "agent_verdict", run: replies::agent_verdict },
    Target { name: "audit_policy", run: files::audit_policy },
    Target { name: "authentication_config", run: files::authentication_config },
    Target { name: "body_json", run: bodies::json },
    Target { name: "body_yaml", run: bodies::yaml },
    Target { name: "cel", run: expressions::cel },
    Target { name: "certificate_user", run: identity::certificate_user },
    Target { name: "continue_token", run: requests::continue_token },
    Target { name: "delete_options", run: requests::delete_options },
    Target { name: "discovery_accept", run: requests::discovery_accept },
    Target { name: "field_selector", run: requests::field_selector },
    Target { name: "fields_v1", run: managed_fields::fields_v1 },
    Target { name: "front_proxy_headers", run: identity::front_proxy_headers },
    Target { name: "gateway_configuration", run: files::gateway_configuration },
    Target { name: "gateway_sequence", run: reviews::gateway_sequence },
    Target { name: "json_patch", run: patches::json },
    Target { name: "label_selector", run: requests::label_selector },
    Target { name: "last_applied", run: managed_fields::last_applied },
    Target { name: "managed_fields", run: managed_fields::managed_fields },
    Target { name: "merge_patch", run: patches::merge },
    Target { name: "notice_time", run: times::notice_time },
    Target { name: "pod_annotations", run: times::pod_annotations },
    Target { name: "push_reply", run: replies::push_reply },
    Target { name: "query", run: requests::query },
    Target { name: "responders_annotation", run: responders::annotation },
    Target { name: "server_side_apply", run: managed_fields::server_side_apply },
    Target { name: "stored_version", run: requests::stored_version },
    Target { name: "strategic_patch", run: patches::strategic },
    Target { name: "tracing_configuration", run: files::tracing_configuration },
    Target { name: "user_agent", run: managed_fields::user_agent },
    Target { name: "webhook_reply", run: reviews::webhook_reply },
    Target { name: "websocket_frames", run: requests::websocket_frames },
    Target { name: "websocket_protocols", run: requests::websocket_protocols },
    Target { name: "window", run: times::window },
];

/// Returns the target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Splits an input at the first line break. The second part is empty without one.
fn halves(input: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
