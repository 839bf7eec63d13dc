//! Entrances for a fuzzer to the parsers of query, headers and options.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use actix_http::ws::Codec;
use actix_web::{
    FromRequest,
    body::MessageBody,
    http::header::{HeaderValue, SEC_WEBSOCKET_PROTOCOL},
    test::TestRequest,
    web,
};
use bytes::BytesMut;
use futures::{StreamExt, stream};
use tokio::runtime::Builder;
use tokio_util::codec::Decoder;

use super::{
    accept,
    delete_options::{Syntax, delete_options as read_delete_options},
    encoding::Encoding,
    input::PatchBody,
    list_options,
    params::Params,
    request_info::RequestInfo,
    websocket,
    write_options::WriteOptions,
};
use crate::{ApiError, Reason};

/// Reads the options in a query, and the purpose of a request with that path. Options that cannot be read are
/// the client's error, and a deadline is never longer than the server's.
pub fn query(method: &str, path: &str, query: &str) {
    let params = match Params::parse(query) {
        Ok(params) => params,
        Err(error) => return clients_error(Err(error)),
    };
    let info = RequestInfo::new(method, path, &params);
    if let Some(resource) = &info.resource {
        assert!(path.contains(&resource.resource) && path.contains(&resource.name), "{path}: {info:?}");
    }
    let most = std::time::Duration::from_mins(1);
    clients_error(params.timeout(most).map(|timeout| assert!(timeout <= most && !timeout.is_zero())));
    clients_error(params.revision().map(|revision| assert!(revision.is_none_or(|revision| revision >= 0))));
    clients_error(list_options::get_options(&params).map(drop));
    clients_error(WriteOptions::of_create(&params).map(drop));
    clients_error(WriteOptions::of_update(&params).map(drop));
    clients_error(WriteOptions::of_patch(&params, PatchBody::Apply).map(drop));
    clients_error(read_delete_options(&[], Syntax::Json, &params, false).map(drop));
}

/// Reads the header `Accept`. A header that accepts anything as its last choice can always be served, and a
/// choice that can be served stays the same when that last choice is added.
pub fn accept_header(header: &str) {
    let params = Params::default();
    let (alone, last) = (accept::negotiate(header, &params), format!("{header}, */*;q=0.0001"));
    match (alone, accept::negotiate(&last, &params)) {
        (Ok(alone), Ok(with_last)) => {
            assert!(alone == with_last || header.trim().is_empty() || header.contains('q'), "{header}");
        }
        (Err(error), Ok(_)) => assert_eq!(error.reason(), Reason::NotAcceptable),
        (_, Err(error)) => panic!("{header}: {error}"),
    }
}

/// Reads the options of a deletion from a body and a query. An empty object asks for nothing.
pub fn delete_options(body: &[u8], query: &str) {
    let Ok(params) = Params::parse(query) else { return };
    for syntax in [Syntax::Json, Syntax::Yaml, Syntax::Protobuf] {
        for collection in [false, true] {
            clients_error(read_delete_options(body, syntax, &params, collection).map(drop));
        }
    }
}

/// Reads the subprotocols of a WebSocket. A token is never the subprotocol of the reply.
pub fn websocket_protocols(value: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let headers = [(SEC_WEBSOCKET_PROTOCOL, value)].into_iter().collect();
    if let Ok(Some(token)) = websocket::bearer_token(&headers) {
        assert!(!token.is_empty());
        let chosen = websocket::chosen(&headers);
        assert!(chosen.is_some_and(|chosen| !chosen.starts_with(websocket::BEARER_PROTOCOL)), "{chosen:?}");
    }
}

/// Reads the frames that a client sends on a WebSocket, and answers them. The WebSocket ends with the client,
/// and all that is sent on it are frames.
pub fn websocket_frames(sent: &[u8]) {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
    let _entered = runtime.enter();
    let request = TestRequest::default()
        .insert_header(("upgrade", "websocket"))
        .insert_header(("connection", "upgrade"))
        .insert_header(("sec-websocket-version", "13"))
        .insert_header(("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="))
        .set_payload(sent.to_vec());
    let (request, mut payload) = request.to_http_parts();
    let payload = web::Payload::from_request(&request, &mut payload).into_inner();
    let payload = payload.unwrap_or_else(|error| panic!("{error}"));
    let events = stream::pending().boxed_local();
    let response = websocket::upgrade(&request, payload, Encoding::Json, events);
    let mut body = response.unwrap_or_else(|error| panic!("{error}")).into_body();
    let (mut context, mut answered) = (Context::from_waker(Waker::noop()), BytesMut::new());
    let ended = (0..64 + sent.len()).any(|_| match Pin::new(&mut body).poll_next(&mut context) {
        Poll::Ready(Some(Ok(bytes))) => {
            answered.extend_from_slice(&bytes);
            false
        }
        Poll::Ready(Some(Err(error))) => panic!("{error}"),
        Poll::Ready(None) => true,
        Poll::Pending => false,
    });
    assert!(ended, "the client has left, and the WebSocket has not ended");
    let mut codec = Codec::new().client_mode();
    while !answered.is_empty() {
        let frame = codec.decode(&mut answered);
        assert!(matches!(frame, Ok(Some(_))), "{frame:?}");
    }
}

/// Panics on a failure that is the server's fault.
fn clients_error(result: Result<(), ApiError>) {
    if let Err(error) = result {
        assert!(matches!(error.reason(), Reason::BadRequest | Reason::Invalid), "{error}");
    }
}
