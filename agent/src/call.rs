//! Calls of a local URL.

use std::{fmt, net::IpAddr, str::FromStr};

use bytes::Bytes;
use http::{Request, Uri, header, response::Parts};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::{bounds::Bounds, context::Context, verdict::Verdict};

/// Maximum size of a reply, in bytes.
const MAX_REPLY: usize = 64 * 1024;

/// An http URL of this host: nothing leaves the pod.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LocalUrl {
    uri: Uri,
    host: String,
    port: u16,
}

impl fmt::Debug for LocalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.uri, f)
    }
}

/// Problem with a URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("it is not a URL")]
    Malformed,
    #[error("its scheme must be http")]
    Scheme,
    #[error("its host must be localhost or a loopback address")]
    Host,
}

impl FromStr for LocalUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        if uri.scheme_str() != Some("http") {
            return Err(UrlError::Scheme);
        }
        let host = uri.host().ok_or(UrlError::Malformed)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        // The name is not looked up: it always means this host.
        let host = if host == "localhost" { "127.0.0.1".to_owned() } else { host };
        if !host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
            return Err(UrlError::Host);
        }
        let port = uri.port_u16().unwrap_or(80);
        Ok(Self { uri, host, port })
    }
}

/// Failure of a call.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("cannot be reached: {0}")]
    Connect(#[from] std::io::Error),
    #[error("does not speak HTTP: {0}")]
    Http(#[from] hyper::Error),
    #[error("cannot be asked: {0}")]
    Request(#[from] http::Error),
    #[error("answers more than {MAX_REPLY} bytes, or not to the end")]
    Body,
    #[error("took longer than {0}")]
    Late(humantime::FormattedDuration),
}

/// A reply, as much of it as has arrived.
#[derive(Default)]
struct Received {
    head: Option<Parts>,
    body: Vec<u8>,
}

impl Received {
    /// Returns the verdict of a call that ended so.
    ///
    /// A code that keeps the pod counts without the rest of its reply, which is only a message. One that lets
    /// it go needs the end: the app can write it when its work is done.
    fn verdict(self, ended: Result<(), CallError>) -> Result<Verdict, CallError> {
        let Some(head) = self.head else {
            ended?;
            return Err(CallError::Body);
        };
        let text = String::from_utf8_lossy(&self.body);
        let verdict = Verdict::of_reply(head.status, &head.headers, &text);
        if matches!(verdict, Verdict::Accept { .. }) {
            ended?;
        }
        Ok(verdict)
    }
}

/// Posts the context to the URL, and waits for the reply until `stop` is cancelled or the limit is reached.
pub(crate) async fn call(
    url: &LocalUrl,
    context: &Context,
    bounds: Bounds,
    stop: &CancellationToken,
) -> Verdict {
    let failure = |message: String| Verdict::Failure { message };
    let mut received = Received::default();
    let ended = tokio::select! {
        ended = post(url, context, &mut received) => ended,
        () = stop.cancelled() => return failure(format!("the call of {url:?} was stopped")),
        () = tokio::time::sleep(bounds.limit) => {
            Err(CallError::Late(humantime::format_duration(bounds.limit)))
        }
    };
    received.verdict(ended).unwrap_or_else(|error| failure(format!("{url:?} {error}")))
}

async fn post(url: &LocalUrl, context: &Context, received: &mut Received) -> Result<(), CallError> {
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
    let (mut sender, connection) = http1::Builder::new()
        // A header that is not valid does not cost the app its answer.
        .ignore_invalid_headers_in_responses(true)
        .allow_spaces_after_header_name_in_responses(true)
        .handshake(TokioIo::new(stream))
        .await?;
    let path = url.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let host = url.uri.authority().map_or("localhost", http::uri::Authority::as_str);
    let body = serde_json::to_vec(context).unwrap_or_default();
    let request = Request::post(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        received.head = Some(head);
        let mut body = Limited::new(body, MAX_REPLY);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| CallError::Body)?;
            if let Some(data) = frame.data_ref() {
                received.body.extend_from_slice(data);
            }
        }
        Ok(())
    };
    tokio::pin!(exchange);
    tokio::select! {
        ended = &mut exchange => ended,
        // After the end of the connection the exchange returns its error.
        _ = connection => exchange.await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const BOUNDS: Bounds = Bounds { limit: Duration::from_secs(10), grace: Duration::from_secs(1) };

    /// Answers one request with these bytes, and returns what it was sent.
    async fn serve(listener: TcpListener, reply: Vec<u8>) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(&reply).await.unwrap();
        request.truncate(read);
        String::from_utf8(request).unwrap()
    }

    async fn call_one(reply: &[u8]) -> (Verdict, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/drain?fast=1", listener.local_addr().unwrap());
        let url: LocalUrl = url.parse().unwrap();
        let (context, stop) = (Context::pre_stop(), CancellationToken::new());
        tokio::join!(call(&url, &context, BOUNDS, &stop), serve(listener, reply.to_vec()))
    }

    #[test]
    fn only_this_host_is_called() {
        for (text, expected) in [
            ("http://127.0.0.1:8080/drain", None),
            ("http://127.9.9.9/", None),
            ("http://[::1]:8080/drain", None),
            ("http://localhost", None),
            ("https://127.0.0.1/", Some(UrlError::Scheme)),
            ("/drain", Some(UrlError::Scheme)),
            ("http://10.0.0.1/", Some(UrlError::Host)),
            ("http://169.254.169.254/", Some(UrlError::Host)),
            ("http://localhost.example.com/", Some(UrlError::Host)),
            ("http://127.0.0.1@example.com/", Some(UrlError::Host)),
            ("not a url", Some(UrlError::Malformed)),
        ] {
            assert_eq!(text.parse::<LocalUrl>().err(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn the_reply_is_the_answer_and_the_body_says_why_it_was_called() {
        let reply = b"HTTP/1.1 202 Accepted\r\nRetry-After: 7\r\nContent-Length: 11\r\n\r\n3 jobs left";
        let (verdict, request) = call_one(reply).await;
        let (time, message) = (Duration::from_secs(7), "3 jobs left".to_owned());
        assert_eq!(verdict, Verdict::Delay { time, message });
        assert!(request.starts_with("POST /drain?fast=1 HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
        assert!(request.ends_with(r#"{"event":"PreStop"}"#), "{request}");
    }

    #[tokio::test]
    async fn a_code_that_keeps_the_pod_counts_whatever_its_body_lacks() {
        let refuse = |message: &str| Verdict::Refuse { message: message.into(), retry_after: None };
        let delay = |seconds, message: &str| Verdict::Delay {
            time: Duration::from_secs(seconds),
            message: message.into(),
        };
        let failure = Verdict::Failure { message: "the URL answered 500 Internal Server Error".into() };
        for (reply, expected) in [
            ("409 Conflict\r\nContent-Length: 100\r\n\r\na backup runs", refuse("a backup runs")),
            ("409 Conflict\r\nContent-Length: 100\r\n\r\n", refuse("409 Conflict")),
            ("409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n", refuse("409 Conflict")),
            (
                "409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\nd\r\na backup runs\r\n",
                refuse("a backup runs"),
            ),
            ("202 Accepted\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\n", delay(7, "")),
            ("202 Accepted\r\nContent-Length: 90\r\n\r\n3 jobs left", delay(30, "3 jobs left")),
            ("503 Busy\r\nRetry-After: 60\r\nContent-Length: 9\r\n\r\n", delay(60, "")),
            ("500 Oops\r\nContent-Length: 9\r\n\r\n", failure),
        ] {
            let (verdict, _) = call_one(format!("HTTP/1.1 {reply}").as_bytes()).await;
            assert_eq!(verdict, expected, "{reply:?}");
        }
        let long = format!("HTTP/1.1 409 Conflict\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
        let (verdict, _) = call_one(long.as_bytes()).await;
        assert!(matches!(verdict, Verdict::Refuse { .. }), "{verdict:?}");
        // The work of a reply that lets the pod go may not be done.
        let (verdict, _) = call_one(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndone").await;
        assert!(matches!(verdict, Verdict::Failure { .. }), "{verdict:?}");
    }

    #[tokio::test]
    async fn a_header_that_is_not_valid_costs_no_answer() {
        for header in ["X-Took : 3 ms", "no header", ": 3 ms", "X-Zeit-f\u{fc}r: 3 ms", "X-Took: 3\u{1} ms"] {
            let reply =
                format!("HTTP/1.1 409 Conflict\r\n{header}\r\nContent-Length: 13\r\n\r\na backup runs");
            let (verdict, _) = call_one(reply.as_bytes()).await;
            let message = "a backup runs".to_owned();
            assert_eq!(verdict, Verdict::Refuse { message, retry_after: None }, "{header:?}");
        }
    }

    #[test]
    fn a_body_that_does_not_end_in_time_takes_no_refusal_back() {
        for (code, refused) in [(409_u16, true), (200, false)] {
            let (head, ()) = http::Response::builder().status(code).body(()).unwrap().into_parts();
            let received = Received { head: Some(head), body: b"3 jobs".to_vec() };
            let late = Err(CallError::Late(humantime::format_duration(BOUNDS.limit)));
            let verdict = received.verdict(late);
            assert_eq!(matches!(verdict, Ok(Verdict::Refuse { .. })), refused, "{code}: {verdict:?}");
            assert_eq!(matches!(verdict, Err(CallError::Late(_))), !refused, "{code}: {verdict:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_reply_is_no_answer() {
        let long = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
        for reply in [&b""[..], b"nonsense\r\n\r\n", long.as_bytes()] {
            let (verdict, _) = call_one(reply).await;
            assert!(matches!(verdict, Verdict::Failure { .. }), "{verdict:?}");
        }
        let url: LocalUrl = "http://127.0.0.1:1/".parse().unwrap();
        let verdict = call(&url, &Context::pre_stop(), BOUNDS, &CancellationToken::new()).await;
        assert!(matches!(verdict, Verdict::Failure { .. }), "{verdict:?}");
    }
}
