//! Queries, headers and options of requests.

use std::str::from_utf8;

use machinery_server::fuzzing;

use crate::halves;

pub(crate) fn accept_header(input: &[u8]) {
    from_utf8(input).map(fuzzing::accept_header).unwrap_or_default();
}

pub(crate) fn continue_token(input: &[u8]) {
    from_utf8(input).map(fuzzing::continue_token).unwrap_or_default();
}

/// The query, a line break, and the body.
pub(crate) fn delete_options(input: &[u8]) {
    let (query, body) = halves(input);
    from_utf8(query).map(|query| fuzzing::delete_options(body, query)).unwrap_or_default();
}

pub(crate) fn field_selector(input: &[u8]) {
    from_utf8(input).map(fuzzing::field_selector).unwrap_or_default();
}

pub(crate) fn label_selector(input: &[u8]) {
    from_utf8(input).map(fuzzing::label_selector).unwrap_or_default();
}

pub(crate) fn discovery_accept(input: &[u8]) {
    from_utf8(input).map(machinery_openapi::fuzzing::discovery_accept).unwrap_or_default();
}

pub(crate) fn stored_version(input: &[u8]) {
    fuzzing::stored_version(input);
}

pub(crate) fn websocket_frames(input: &[u8]) {
    fuzzing::websocket_frames(input);
}

pub(crate) fn websocket_protocols(input: &[u8]) {
    fuzzing::websocket_protocols(input);
}

/// The method, a space, and the path with the query.
pub(crate) fn query(input: &[u8]) {
    let Ok(text) = from_utf8(input) else { return };
    let (method, url) = text.split_once(' ').unwrap_or(("GET", text));
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    fuzzing::query(method, path, query);
}
