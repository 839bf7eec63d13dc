//! A probe of an aggregated API server: whether it answers, when its store took a write, and its time.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body};

/// Header with the server's time.
const SERVER_TIME: &str = "server-time";
/// Header with the time of the last write that the server's store took.
const STORE_WRITTEN: &str = "store-written";
/// Header with the time at which the server's store took writes again; absent when it always did.
const STORE_RECOVERED: &str = "store-recovered";

/// Reply to a probe. The times are those of the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// HTTP status.
    pub status: StatusCode,
    /// Time of the server, unless the reply does not tell.
    pub server_time: Option<DateTime<Utc>>,
    /// Time of the last write of the store, which is `None` before the first one. `None` when the reply does
    /// not tell, because a kube-apiserver or an older server wrote it.
    pub store_written: Option<Option<DateTime<Utc>>>,
    /// Time since the store took writes again, if it took none for a while.
    pub recovered_ago: Option<Duration>,
    /// Arrival of the reply, by the monotonic clock.
    pub received: Instant,
}

/// Lists one object at `path`, such as `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE`. Returns `None`
/// when no server answers.
///
/// A list, because it goes all the way to the store. Choose a namespace in which only administrators write:
/// an object that cannot be read fails the list of its own namespace, unless the client skips such objects.
/// The caller bounds the time.
pub async fn probe(client: &Client, path: &str) -> Option<ProbeReply> {
    let request = Request::get(format!("{path}?limit=1")).body(Body::empty()).ok()?;
    let reply = client.send(request).await.ok()?;
    let read = ProbeReply::read(reply.status(), reply.headers(), Instant::now());
    // Read to its end, so that the connection can be used again.
    reply.into_body().collect().await.ok()?;
    Some(read)
}

impl ProbeReply {
    fn read(status: StatusCode, headers: &HeaderMap, received: Instant) -> Self {
        let server_time = time(headers, SERVER_TIME);
        let recovered = server_time.zip(time(headers, STORE_RECOVERED));
        Self {
            status,
            server_time,
            store_written: headers.contains_key(STORE_WRITTEN).then(|| time(headers, STORE_WRITTEN)),
            recovered_ago: recovered.and_then(|(now, recovered)| (now - recovered).to_std().ok()),
            received,
        }
    }
}

fn time(headers: &HeaderMap, name: &str) -> Option<DateTime<Utc>> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_tells_the_times_that_its_headers_have() {
        let received = Instant::now();
        let read = |headers: &[(&'static str, &'static str)]| {
            let map = headers.iter().map(|(name, value)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            });
            ProbeReply::read(StatusCode::OK, &map.collect(), received)
        };
        let at = |second: i64| DateTime::from_timestamp(1_767_225_600 + second, 0);
        let silent = read(&[]);
        assert_eq!((silent.server_time, silent.store_written, silent.recovered_ago), (None, None, None));
        let full = read(&[
            (SERVER_TIME, "2026-01-01T00:01:00.000000Z"),
            (STORE_WRITTEN, "2026-01-01T00:00:59.000000Z"),
            (STORE_RECOVERED, "2026-01-01T00:00:30.000000Z"),
        ]);
        assert_eq!((full.server_time, full.store_written), (at(60), Some(at(59))));
        assert_eq!(full.recovered_ago, Some(Duration::from_secs(30)));
        assert_eq!(read(&[(STORE_WRITTEN, "never")]).store_written, Some(None));
    }
}
