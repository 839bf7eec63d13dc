//! Watches over WebSocket, for browsers. Source of the rules: `HandleWS` in
//! `k8s.io/apiserver/pkg/endpoints/handlers/watch.go`, and
//! `k8s.io/apiserver/pkg/authentication/request/websocket`.
//!
//! # Flow
//!
//! The request is served like any watch. Its events then become messages of a WebSocket: one text message an
//! event, or one binary message for protobuf. Frames of the client are read and dropped, pings are answered.
//!
//! # Guarantees
//!
//! One frame of the client at most is in memory. The server reads the client's frames and the watch only as
//! fast as the connection takes the messages. The end of the watch closes the WebSocket, and the other way
//! around.

use std::{
    future::Future,
    io::ErrorKind,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use actix_http::ws::{CloseCode, CloseReason, Codec, Frame, Message, ProtocolError, handshake};
use actix_web::{
    HttpRequest, HttpResponse,
    body::{BodyStream, MessageBody},
    http::header::{self, HeaderMap},
    web,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};
use tokio_util::codec::{Decoder, Encoder};

use super::{encoding::Encoding, reply::Events};
use crate::{ApiError, Reason};

/// Prefix of the subprotocol that carries a bearer token.
pub(super) const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// Maximum size of a frame of the client.
const FRAME_BYTES: usize = 64 * 1024;
/// Maximum size of the head of a frame.
const HEAD_BYTES: usize = 14;
/// Maximum number of chunks that are read from the client before its own messages are sent.
const READS: usize = 8;
/// Maximum time that a client has to close the connection after the end of its watch.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Interval of pings. Proxies on the way end a connection on which nothing is sent.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Returns true for a request that asks for a WebSocket.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text(header::UPGRADE).eq_ignore_ascii_case("websocket")
        && text(header::CONNECTION).to_ascii_lowercase().contains("upgrade")
}

/// Returns the bearer token among the subprotocols, if there is one. Browsers cannot set other headers.
///
/// # Errors
///
/// `Unauthorized` when there are several, one cannot be read, or no other subprotocol is given.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let refuse = || ApiError::status(Reason::Unauthorized, "Unauthorized");
    let mut tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(BEARER_PROTOCOL));
    let Some(token) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err(refuse());
    }
    let token = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
    let token = String::from_utf8(token).map_err(|_| refuse())?;
    match (token.is_empty(), chosen(headers)) {
        (true, _) => Ok(None),
        (false, Some(_)) => Ok(Some(token)),
        (false, None) => Err(refuse()),
    }
}

/// Subprotocol of the reply: the first one that is no token.
pub(crate) fn chosen(headers: &HeaderMap) -> Option<&str> {
    protocols(headers).find(|protocol| !protocol.starts_with(BEARER_PROTOCOL))
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// Returns the response that turns the connection into a WebSocket with these events.
///
/// # Errors
///
/// `BadRequest` when the request is no proper handshake.
pub(crate) fn upgrade(
    request: &HttpRequest,
    payload: web::Payload,
    encoding: Encoding,
    events: Events,
) -> Result<HttpResponse, ApiError> {
    let refuse =
        |error: String| ApiError::status(Reason::BadRequest, format!("websocket handshake: {error}"));
    let mut response = handshake(request.head()).map_err(|error| refuse(error.to_string()))?;
    if let Some(protocol) = chosen(request.headers()) {
        response.insert_header((header::SEC_WEBSOCKET_PROTOCOL, protocol));
    }
    let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let messages = Messages {
        events: Some(events),
        binary: encoding == Encoding::Protobuf,
        payload,
        codec: Codec::new().max_size(FRAME_BYTES),
        received: BytesMut::new(),
        pings,
        cut_off: None,
    };
    let body = BodyStream::new(messages).boxed();
    Ok(response.message_body(body).map_err(|error| refuse(error.to_string()))?.into())
}

/// Bytes that are sent on a WebSocket.
struct Messages {
    /// Absent when nothing more is sent.
    events: Option<Events>,
    /// True for protobuf.
    binary: bool,
    payload: web::Payload,
    codec: Codec,
    /// Bytes of the client that are no whole frame yet.
    received: BytesMut,
    pings: Interval,
    /// Time at which the connection is cut off. Set when the WebSocket is closed.
    cut_off: Option<Pin<Box<Sleep>>>,
}

/// Reaction to the frames of the client.
enum Heard {
    /// The client sent nothing that matters.
    Nothing,
    /// The last ping, which is answered.
    Ping(Bytes),
    /// The client closes the WebSocket, or sent no proper frame.
    Close(CloseCode),
    /// The connection is gone.
    Left,
}

impl Stream for Messages {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let heard = self.hear(context);
        if let Some(cut_off) = &mut self.cut_off {
            return match (heard, cut_off.as_mut().poll(context)) {
                (Heard::Left, _) => Poll::Ready(None),
                // actix ends the connection of a body that fails. It would keep one whose client sends no
                // end.
                (_, Poll::Ready(())) => Poll::Ready(Some(Err(ErrorKind::TimedOut.into()))),
                (_, Poll::Pending) => Poll::Pending,
            };
        }
        match heard {
            Heard::Nothing => {}
            Heard::Ping(bytes) => return self.send([Message::Pong(bytes)]),
            Heard::Close(code) => return self.close(code),
            Heard::Left => return Poll::Ready(None),
        }
        let Some(events) = self.events.as_mut() else { return self.close(CloseCode::Normal) };
        match events.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                let messages = if self.binary { frames(chunk) } else { lines(&chunk) };
                return self.send(messages);
            }
            Poll::Ready(Some(Err(_)) | None) => return self.close(CloseCode::Normal),
            Poll::Pending => {}
        }
        match self.pings.poll_tick(context) {
            Poll::Ready(_) => self.send([Message::Ping(Bytes::new())]),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Messages {
    /// Reads what the client has sent, up to a bound. The rest is read at the next call. Frames after the end
    /// of the WebSocket are not looked at.
    fn hear(&mut self, context: &mut Context<'_>) -> Heard {
        let mut heard = Heard::Nothing;
        for _ in 0..READS {
            match self.payload.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(_))) if self.cut_off.is_some() => continue,
                Poll::Ready(Some(Ok(bytes))) => self.received.extend_from_slice(&bytes),
                Poll::Ready(Some(Err(_)) | None) => return Heard::Left,
                Poll::Pending => return heard,
            }
            loop {
                match self.codec.decode(&mut self.received) {
                    // The codec looks at the size of a frame only when all of it is there.
                    Ok(None) if self.received.len() > FRAME_BYTES + HEAD_BYTES => {
                        return Heard::Close(CloseCode::Size);
                    }
                    Ok(None) => break,
                    Ok(Some(Frame::Ping(bytes))) => heard = Heard::Ping(bytes),
                    Ok(Some(Frame::Close(_))) => return Heard::Close(CloseCode::Normal),
                    Ok(Some(_)) => {}
                    Err(ProtocolError::Overflow) => return Heard::Close(CloseCode::Size),
                    Err(_) => return Heard::Close(CloseCode::Protocol),
                }
            }
        }
        context.waker().wake_by_ref();
        heard
    }

    fn close(&mut self, code: CloseCode) -> Poll<Option<<Self as Stream>::Item>> {
        self.events = None;
        self.cut_off = Some(Box::pin(sleep(CLOSE_WITHIN)));
        self.send([Message::Close(Some(CloseReason::from(code)))])
    }

    fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Poll<Option<<Self as Stream>::Item>> {
        let mut sent = BytesMut::new();
        for message in messages {
            if let Err(error) = self.codec.encode(message, &mut sent) {
                return Poll::Ready(Some(Err(std::io::Error::other(error))));
            }
        }
        Poll::Ready(Some(Ok(sent.freeze())))
    }
}

/// Returns a text message for each line.
fn lines(chunk: &[u8]) -> Vec<Message> {
    let lines = chunk.split_inclusive(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    lines.map(|line| Message::Text(line.into_owned().into())).collect()
}

/// Returns a binary message for each frame of a stream of protobuf.
fn frames(mut chunk: Bytes) -> Vec<Message> {
    let mut messages = Vec::new();
    while chunk.len() >= size_of::<u32>() {
        let length = usize::try_from(chunk.get_u32()).unwrap_or(usize::MAX).min(chunk.len());
        messages.push(Message::Binary(chunk.split_to(length)));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(protocols: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for protocol in protocols {
            headers.append(header::SEC_WEBSOCKET_PROTOCOL, protocol.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn a_token_comes_with_another_subprotocol_which_is_the_one_of_the_reply() {
        type Case<'a> = (&'a [&'a str], Option<Option<&'a str>>, Option<&'a str>);
        let bearer = format!("{BEARER_PROTOCOL}{}", URL_SAFE_NO_PAD.encode("secret"));
        let other = "base64.binary.k8s.io";
        let cases: [Case<'_>; 8] = [
            (&[], Some(None), None),
            (&[other], Some(None), Some(other)),
            (&[&bearer, other], Some(Some("secret")), Some(other)),
            (&[&format!("{bearer} ,{other}")], Some(Some("secret")), Some(other)),
            (&[&bearer], None, None),
            (&[&bearer, &bearer, other], None, Some(other)),
            (&[&format!("{BEARER_PROTOCOL}%"), other], None, Some(other)),
            (&[&format!("{BEARER_PROTOCOL}_w"), other], None, Some(other)),
        ];
        for (protocols, token, protocol) in cases {
            let headers = headers(protocols);
            let found = bearer_token(&headers).ok();
            assert_eq!(found.as_ref().map(Option::as_deref), token, "{protocols:?}");
            assert_eq!(chosen(&headers), protocol, "{protocols:?}");
        }
    }

    #[test]
    fn each_event_is_a_message() {
        let text = |text: &str| Message::Text(text.to_owned().into());
        assert_eq!(lines(b"{\"a\":1}\n{\"b\":2}\n"), [text("{\"a\":1}\n"), text("{\"b\":2}\n")]);
        let chunk = Bytes::from_static(b"\0\0\0\x02ab\0\0\0\x01c");
        assert_eq!(frames(chunk), [Message::Binary("ab".into()), Message::Binary("c".into())]);
    }
}
