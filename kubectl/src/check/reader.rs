//! Reads of the cluster, each within one deadline for all.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, timeout_at};

use crate::connection::warnings;

/// Largest reply that is read.
const BYTES: usize = 16 << 20;
/// Accuracy of the header `Date`, which has whole seconds.
const DATE_SECONDS: TimeDelta = TimeDelta::seconds(1);

/// Result of a read.
pub(super) type Read<T> = Result<T, Unread>;

/// Reason why an object was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The user lacks this right, in the words of the kube-apiserver: `get resource "leases" in ...`.
    Forbidden(String),
    /// There is no such object.
    Absent,
    /// No server answered, or one replied with this error.
    Failed(String),
}

/// A reply with what its headers tell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply<T> {
    pub(super) body: T,
    /// Time by which the clock of the server is ahead of the local one. `None` without the header `Date`.
    pub(super) ahead: Option<TimeDelta>,
    /// Warnings of the server.
    pub(super) warnings: Vec<String>,
}

/// Sends the requests of the check.
pub(super) struct Reader {
    /// Repeats a read while a server does not answer.
    client: Client,
    /// Sends each request once.
    once: Client,
    limit: Duration,
    deadline: Instant,
}

impl Reader {
    /// Makes a reader whose requests all end within `limit` from now.
    pub(super) fn new(client: Client, once: Client, limit: Duration) -> Self {
        Self { client, once, limit, deadline: Instant::now() + limit }
    }

    /// Reads the object at a path. The read is repeated while a server does not answer.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Read<Reply<T>> {
        let request = Request::get(path).body(Body::empty());
        decode(self.send(&self.client, request).await?)
    }

    /// Reads the object at a path by one attempt.
    pub(super) async fn get_once<T: DeserializeOwned>(&self, path: &str) -> Read<Reply<T>> {
        let request = Request::get(path).body(Body::empty());
        decode(self.send(&self.once, request).await?)
    }

    /// Reads the text at a path by one attempt. A text with code 500 is returned as well: readiness probes
    /// name their failed checks in it.
    pub(super) async fn probe(&self, path: &str) -> Read<String> {
        let reply = self.send(&self.once, Request::get(path).body(Body::empty())).await?;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        match reply.code {
            StatusCode::INTERNAL_SERVER_ERROR if !text.starts_with('{') => Ok(text),
            code if code.is_success() => Ok(text),
            _ => Err(reply.unread()),
        }
    }

    /// Posts an object that is not stored, such as a review, and returns the server's answer.
    pub(super) async fn post<T: Serialize + DeserializeOwned>(&self, path: &str, object: &T) -> Read<T> {
        Ok(decode(self.send(&self.client, posted(path, object)?).await?)?.body)
    }

    /// Posts an object by one attempt, and returns the reply whatever it is.
    pub(super) async fn call<T: Serialize>(&self, path: &str, object: &T) -> Read<Answered> {
        self.send(&self.once, posted(path, object)?).await
    }

    /// Waits for that time. Returns false at once when the deadline comes before.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        let has_time = Instant::now() + time < self.deadline;
        if has_time {
            tokio::time::sleep(time).await;
        }
        has_time
    }

    async fn send(&self, client: &Client, request: http::Result<Request<Body>>) -> Read<Answered> {
        let request = request.map_err(|error| Unread::Failed(error.to_string()))?;
        let began = Utc::now();
        let exchange = async {
            let reply = client.send(request).await.map_err(|error| Unread::Failed(error_text(&error)))?;
            Answered::of(reply, began).await
        };
        let silent = || format!("no reply within {}", humantime::format_duration(self.limit));
        timeout_at(self.deadline, exchange).await.unwrap_or_else(|_| Err(Unread::Failed(silent())))
    }
}

fn posted<T: Serialize>(path: &str, object: &T) -> Read<http::Result<Request<Body>>> {
    let body = serde_json::to_vec(object).map_err(|error| Unread::Failed(error.to_string()))?;
    Ok(Request::post(path).header(header::CONTENT_TYPE, "application/json").body(body.into()))
}

/// A reply, an error or not.
pub(super) struct Answered {
    pub(super) code: StatusCode,
    pub(super) body: Bytes,
    pub(super) ahead: Option<TimeDelta>,
    pub(super) warnings: Vec<String>,
}

impl Answered {
    async fn of(reply: Response<Body>, began: DateTime<Utc>) -> Read<Self> {
        let (head, body) = reply.into_parts();
        let ahead = ahead(&head.headers, began, Utc::now());
        let body = Limited::new(body, BYTES).collect().await;
        let body = body.map_err(|error| Unread::Failed(format!("the reply broke off: {error}")))?.to_bytes();
        Ok(Self { code: head.status, body, ahead, warnings: warnings(&head.headers) })
    }

    /// Returns the reason in a reply that is an error.
    pub(super) fn unread(&self) -> Unread {
        let text = String::from_utf8_lossy(&self.body).trim().to_owned();
        let message = serde_json::from_str(&text).map_or(text, |status: Status| status.message);
        match self.code {
            StatusCode::FORBIDDEN => {
                let right = message.split_once(" cannot ").map(|(_, right)| right.to_owned());
                Unread::Forbidden(right.unwrap_or(message))
            }
            StatusCode::NOT_FOUND => Unread::Absent,
            code if message.is_empty() => Unread::Failed(code.to_string()),
            // The connection's own replies have this code, and say everything in their message.
            StatusCode::SERVICE_UNAVAILABLE => Unread::Failed(message),
            code => Unread::Failed(format!("{}: {message}", code.as_u16())),
        }
    }
}

fn decode<T: DeserializeOwned>(reply: Answered) -> Read<Reply<T>> {
    if !reply.code.is_success() {
        return Err(reply.unread());
    }
    let body = serde_json::from_slice(&reply.body)
        .map_err(|error| Unread::Failed(format!("the reply cannot be read: {error}")))?;
    Ok(Reply { body, ahead: reply.ahead, warnings: reply.warnings })
}

fn error_text(error: &kube::Error) -> String {
    evacuation_client::error_chain(error)
}

/// Returns the time by which the server's clock was ahead when it wrote the header `Date`, which was between
/// the beginning of the request and the receipt of the reply.
fn ahead(headers: &HeaderMap, began: DateTime<Utc>, received: DateTime<Utc>) -> Option<TimeDelta> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = DateTime::parse_from_rfc2822(date).ok()?.to_utc();
    Some(if date > received {
        date - received
    } else if date + DATE_SECONDS < began {
        date + DATE_SECONDS - began
    } else {
        TimeDelta::zero()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_server_is_compared_with_the_time_of_the_request() {
        let time = |second: i64| DateTime::from_timestamp(1_767_225_600 + second, 500_000_000).unwrap();
        for (date, expected) in [
            ("Thu, 01 Jan 2026 00:00:00 GMT", Some(0)),
            ("Thu, 01 Jan 2026 00:00:02 GMT", Some(0)),
            ("Thu, 01 Jan 2026 00:01:02 GMT", Some(59_500)),
            ("Wed, 31 Dec 2025 23:59:50 GMT", Some(-9_500)),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(header::DATE, date.parse().unwrap())]);
            let ahead = ahead(&headers, time(0), time(2));
            assert_eq!(ahead.map(|ahead| ahead.num_milliseconds()), expected, "{date}");
        }
    }

    #[test]
    fn an_error_names_the_missing_right_or_the_cause() {
        let forbidden = r#"{"status":"Failure","code":403,
            "message":"leases \"x\" is forbidden: \"eve\" cannot get resource \"leases\" in namespace \"a\""}"#;
        for (code, body, expected) in [
            (403, forbidden, Unread::Forbidden("get resource \"leases\" in namespace \"a\"".to_owned())),
            (404, "404 page not found", Unread::Absent),
            (
                503,
                r#"{"status":"Failure","message":"the API does not answer","code":503}"#,
                Unread::Failed("the API does not answer".to_owned()),
            ),
            (500, "boom", Unread::Failed("500: boom".to_owned())),
            (502, "", Unread::Failed("502 Bad Gateway".to_owned())),
        ] {
            let code = StatusCode::from_u16(code).unwrap();
            let reply = Answered { code, body: Bytes::from(body), ahead: None, warnings: vec![] };
            assert_eq!(reply.unread(), expected, "{code}");
        }
    }
}
