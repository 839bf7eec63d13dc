//! Probe of the API: whether it answers, whether its store takes writes, and what time it is there.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, Resource, client::Body};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Cluster,
    reachability::{Proof, takes_writes},
};

/// Pause between two probes: short, so that nothing is a second late when the server's clock is set.
const EVERY: Duration = Duration::from_millis(800);
/// Maximum time of one probe. A single one that is lost is no interruption: with the pauses around it, it
/// takes less than the 5 s that are tolerated.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Header with the server's time.
const SERVER_TIME: &str = "server-time";
/// Header with the time of the last write that the server's store took.
const STORE_WRITTEN: &str = "store-written";
/// Header with the time at which the server's store took writes again; absent when it always did.
const STORE_RECOVERED: &str = "store-recovered";

/// Probes the API until `stop`, so that outages and jumps of its clock are noticed also while no other
/// request is due. A list of one, because it goes all the way to the store.
pub(crate) async fn probe(cluster: Cluster, stop: CancellationToken) {
    let mut interrupted = false;
    loop {
        let sent = Instant::now();
        if let Ok(Some(reply)) = timeout(TIMEOUT, ask(&cluster.client)).await {
            cluster.store_recovered(reply.recovered_ago, reply.received);
            cluster.api_answered(reply.time, reply.proof, sent, reply.received);
        }
        let now = Instant::now();
        if cluster.reachability.is_interrupted(now) != interrupted {
            interrupted = !interrupted;
            if interrupted && cluster.reachability.is_away(now) {
                warn!("evacuation API: no reply, waiting for it");
            } else if interrupted {
                warn!("evacuation API: its store takes no writes, only deadlines act");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Content of a reply.
struct Reply {
    time: Option<DateTime<Utc>>,
    proof: Proof,
    /// Time since the store took writes again, if it took none for a while.
    recovered_ago: Option<Duration>,
    received: Instant,
}

/// Asks once. `None` when no server answers.
async fn ask(client: &Client) -> Option<Reply> {
    let path = Evacuation::url_path(&(), None);
    let request = http::Request::get(format!("{path}?limit=1"));
    let reply = client.send(request.body(Body::empty()).ok()?).await.ok()?;
    let received = Instant::now();
    let proof = proof(reply.status(), reply.headers())?;
    let headers = reply.headers();
    let (time, recovered) = (time(headers, SERVER_TIME), time(headers, STORE_RECOVERED));
    let recovered_ago = time.zip(recovered).and_then(|(now, recovered)| (now - recovered).to_std().ok());
    // Read to its end, so that the connection can be used again.
    reply.into_body().collect().await.ok()?;
    Some(Reply { time, proof, recovered_ago, received })
}

/// Proof that a reply gives; `None` for one of a server that cannot serve.
///
/// A refusal proves only that a server answers: 403 and 404 can come from a kube-apiserver that does not
/// reach ours, and 429 from a busy one. Our server tells in a header when its store took the last write, also
/// with a refusal. Without that header (of an older server) a successful read has to do.
fn proof(status: StatusCode, headers: &HeaderMap) -> Option<Proof> {
    if status.is_server_error() {
        return None;
    }
    let written = match (headers.get(STORE_WRITTEN), time(headers, SERVER_TIME)) {
        (Some(_), Some(now)) => {
            time(headers, STORE_WRITTEN).is_some_and(|written| takes_writes(written, now))
        }
        (Some(_), None) => false,
        (None, _) => status.is_success(),
    };
    Some(if written { Proof::TakesWrites } else { Proof::Answers })
}

fn time(headers: &HeaderMap, name: &str) -> Option<DateTime<Utc>> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:01:00.000000Z";

    fn proved(code: u16, written: Option<&str>) -> Option<Proof> {
        let mut headers = HeaderMap::new();
        headers.insert(SERVER_TIME, NOW.parse().unwrap());
        if let Some(written) = written {
            headers.insert(STORE_WRITTEN, written.parse().unwrap());
        }
        proof(StatusCode::from_u16(code).unwrap(), &headers)
    }

    #[test]
    fn rule_9_only_a_store_that_took_a_write_just_now_proves_that_apps_can_answer() {
        let (answers, writes) = (Some(Proof::Answers), Some(Proof::TakesWrites));
        let table = [
            (200, Some("2026-01-01T00:00:58.000000Z"), writes),
            (200, Some("2026-01-01T00:00:30.000000Z"), answers),
            (200, Some("never"), answers),
            (200, None, writes),
            (429, None, answers),
            (429, Some(NOW), writes),
            (401, None, answers),
            (403, None, answers),
            (404, None, answers),
            (500, Some(NOW), None),
            (503, None, None),
        ];
        for (code, written, expected) in table {
            assert_eq!(proved(code, written), expected, "{code} {written:?}");
        }
    }
}
