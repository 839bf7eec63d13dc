//! `/metrics`, `/livez` and `/readyz` over plain HTTP.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Maximum number of connections that are served at once.
const CONNECTIONS: usize = 64;
/// Maximum time of a connection, for one request and its reply.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Content of the responses.
pub(crate) trait Probed: Send + Sync + 'static {
    /// Metrics as text.
    fn metrics(&self) -> String;
    /// Names of the parts that are not ready yet. Empty when everything is ready.
    fn not_ready(&self) -> Vec<&'static str>;
    /// Conditions that an administrator should know although everything is ready, one line each.
    fn warnings(&self) -> Vec<String>;
}

/// Serves metrics and probes until `stop`.
///
/// Each pod of the cluster can connect. Of too many connections the oldest is closed: the kubelet's probe is
/// answered within milliseconds, and whoever holds connections open keeps none from it.
pub(crate) async fn serve_metrics<P: Probed>(listener: TcpListener, probed: Arc<P>, stop: CancellationToken) {
    let (mut served, mut oldest_first) = (JoinSet::new(), VecDeque::<AbortHandle>::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = served.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "a connection for metrics was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if oldest_first.len() >= CONNECTIONS {
            oldest_first.retain(|connection| !connection.is_finished());
        }
        if oldest_first.len() >= CONNECTIONS
            && let Some(oldest) = oldest_first.pop_front()
        {
            oldest.abort();
        }
        oldest_first.push_back(served.spawn(serve(stream, Arc::clone(&probed))));
    }
}

/// Serves one request of a connection.
async fn serve<P: Probed>(stream: TcpStream, probed: Arc<P>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = respond(probed.as_ref(), request.uri().path());
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = timeout(TIMEOUT, connection).await {
        debug!(error = &error as &dyn std::error::Error, "a connection for metrics broke");
    }
}

fn respond(probed: &impl Probed, path: &str) -> Response<Full<Bytes>> {
    let (code, kind, body) = match path {
        "/metrics" => {
            (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", probed.metrics())
        }
        "/livez" | "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => match probed.not_ready() {
            missing if missing.is_empty() => (StatusCode::OK, "text/plain", ready(&probed.warnings())),
            missing => (
                StatusCode::SERVICE_UNAVAILABLE,
                "text/plain",
                format!("not ready: {}\n", missing.join(", ")),
            ),
        },
        _ => (StatusCode::NOT_FOUND, "text/plain", "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Text of a process that is ready, with its warnings.
fn ready(warnings: &[String]) -> String {
    let mut text = "ok\n".to_owned();
    for warning in warnings {
        text.extend(["warning: ", warning, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_util::sync::DropGuard;

    use super::*;

    struct Fake(Vec<&'static str>);

    impl Probed for Fake {
        fn metrics(&self) -> String {
            "some_metric 1\n".to_owned()
        }

        fn not_ready(&self) -> Vec<&'static str> {
            self.0.clone()
        }

        fn warnings(&self) -> Vec<String> {
            vec!["clocks differ".to_owned()]
        }
    }

    /// A server that ends when this is dropped.
    struct Server {
        address: SocketAddr,
        _stop: DropGuard,
    }

    impl Server {
        async fn new(fake: Fake) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let stop = CancellationToken::new();
            tokio::spawn(serve_metrics(listener, Arc::new(fake), stop.clone()));
            Self { address, _stop: stop.drop_guard() }
        }

        /// Returns a connection over which requests for that path were sent.
        async fn asked(&self, path: &str, times: usize) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").repeat(times);
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        }

        async fn get(&self, path: &str) -> String {
            let mut text = String::new();
            self.asked(path, 1).await.read_to_string(&mut text).await.unwrap();
            text
        }
    }

    async fn get(fake: Fake, path: &str) -> String {
        Server::new(fake).await.get(path).await
    }

    /// # Attack
    ///
    /// - Attacker: a pod that can reach the controller's port for metrics
    /// - Act: holds connections open, so that the probes of the kubelet fail and it ends the controller
    /// - Promise: 8
    #[tokio::test]
    async fn connections_that_are_held_open_keep_no_probe_from_its_reply() {
        let server = Server::new(Fake(vec![])).await;
        let mut held = Vec::new();
        for number in 0..2 * CONNECTIONS {
            held.push(server.asked("/metrics", number % 3).await);
        }
        assert!(server.get("/livez").await.starts_with("HTTP/1.1 200 OK"));
    }

    #[tokio::test]
    async fn metrics_and_probes_are_served() {
        let metrics = get(Fake(vec![]), "/metrics").await;
        assert!(metrics.starts_with("HTTP/1.1 200 OK") && metrics.ends_with("some_metric 1\n"), "{metrics}");
        assert!(get(Fake(vec!["watch of pods"]), "/livez").await.starts_with("HTTP/1.1 200 OK"));
        let ready = get(Fake(vec![]), "/readyz").await;
        assert!(
            ready.starts_with("HTTP/1.1 200") && ready.ends_with("ok\nwarning: clocks differ\n"),
            "{ready}"
        );
        let waiting = get(Fake(vec!["watch of pods"]), "/readyz").await;
        assert!(
            waiting.starts_with("HTTP/1.1 503") && waiting.ends_with("not ready: watch of pods\n"),
            "{waiting}"
        );
        assert!(get(Fake(vec![]), "/else").await.starts_with("HTTP/1.1 404"));
    }
}
