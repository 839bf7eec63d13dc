//! `/metrics`, `/livez` and `/readyz` over plain HTTP.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Maximum number of connections that are served at once.
const CONNECTIONS: usize = 64;
/// Maximum time in which a client sends the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

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
pub(crate) async fn serve_metrics<P: Probed>(listener: TcpListener, probed: Arc<P>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
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
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            continue;
        };
        let (probed, stop) = (Arc::clone(&probed), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let service = service_fn(|request: Request<Incoming>| {
                let response = respond(probed.as_ref(), request.uri().path());
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                () = stop.cancelled() => {}
                served = connection => if let Err(error) = served {
                    debug!(error = &error as &dyn std::error::Error, "a connection for metrics broke");
                }
            }
        });
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
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

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

    async fn get(fake: Fake, path: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve_metrics(listener, Arc::new(fake), stop.clone()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        stop.cancel();
        server.await.unwrap();
        text
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
