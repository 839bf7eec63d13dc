//! The probes `/livez` and `/readyz`.
//!
//! `/readyz` reports an outage of the API. It fails for one only with `--ready-needs-api`: a side-car that is
//! not ready makes its whole pod unready.

use std::{convert::Infallible, io, net::SocketAddr, time::Duration};

use evacuation_client::Connection;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::watch::Receiver, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Number of probes that are served at a time.
const MAX_CONNECTIONS: usize = 16;
/// Duration of one probe.
const TIMEOUT: Duration = Duration::from_secs(5);

/// State that the probes report.
#[derive(Clone)]
pub(crate) struct Health {
    /// Connection of the agent's responder to the API.
    pub(crate) connection: Receiver<Connection>,
    /// True if `/readyz` fails without that connection.
    pub(crate) needs_api: bool,
    /// Cancelled when the agent begins to end.
    pub(crate) ending: CancellationToken,
}

pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until `shutdown`.
pub(crate) async fn serve(listener: TcpListener, health: Health, shutdown: CancellationToken) {
    let mut probes = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(_) = probes.join_next() => {}
            accepted = listener.accept(), if probes.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let health = health.clone();
                    probes.spawn(async move {
                        let service = service_fn(|request: Request<Incoming>| {
                            let reply = health.reply(request.uri().path());
                            std::future::ready(Ok::<_, Infallible>(reply))
                        });
                        let connection = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .keep_alive(false)
                            .max_buf_size(8 * 1024)
                            .serve_connection(TokioIo::new(stream), service);
                        // A probe may leave at any time.
                        tokio::time::timeout(TIMEOUT, connection).await.ok();
                    });
                }
                Err(error) => {
                    tracing::warn!("a probe could not connect: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

impl Health {
    fn reply(&self, path: &str) -> Response<Full<bytes::Bytes>> {
        let (status, text) = match path {
            "/livez" => (StatusCode::OK, "ok".to_owned()),
            "/readyz" => self.ready(),
            _ => (StatusCode::NOT_FOUND, "not found".to_owned()),
        };
        let mut response = Response::new(Full::from(text + "\n"));
        *response.status_mut() = status;
        response
    }

    fn ready(&self) -> (StatusCode, String) {
        if self.ending.is_cancelled() {
            return (StatusCode::SERVICE_UNAVAILABLE, "shutting down".to_owned());
        }
        let outage = match &*self.connection.borrow() {
            Connection::Up => return (StatusCode::OK, "ok".to_owned()),
            Connection::Starting => "evacuations were not listed yet".to_owned(),
            Connection::Down { since, error } => {
                format!("evacuations cannot be watched for {} s: {error}", since.elapsed().as_secs())
            }
        };
        if self.needs_api {
            (StatusCode::SERVICE_UNAVAILABLE, outage)
        } else {
            (StatusCode::OK, format!("ok, but {outage}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        sync::watch,
        time::Instant,
    };

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn the_agent_is_live_until_its_end_and_ready_until_it_is_told_to_end() {
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ending, shutdown) = (CancellationToken::new(), CancellationToken::new());
        let (_up, connection) = watch::channel(Connection::Up);
        let health = Health { connection, needs_api: false, ending: ending.clone() };
        let server = tokio::spawn(serve(listener, health, shutdown.clone()));
        assert_eq!(get(address, "/livez").await, "HTTP/1.1 200 OK");
        assert_eq!(get(address, "/readyz").await, "HTTP/1.1 200 OK");
        assert_eq!(get(address, "/").await, "HTTP/1.1 404 Not Found");
        ending.cancel();
        assert_eq!(get(address, "/livez").await, "HTTP/1.1 200 OK");
        assert_eq!(get(address, "/readyz").await, "HTTP/1.1 503 Service Unavailable");
        shutdown.cancel();
        server.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_the_api_is_reported_and_fails_readiness_only_on_demand() {
        let up: fn() -> Connection = || Connection::Up;
        let starting: fn() -> Connection = || Connection::Starting;
        let down: fn() -> Connection =
            || Connection::Down { since: Instant::now(), error: "connection refused".to_owned() };
        for (connection, needs_api, expected) in [
            (up, false, (200, "ok")),
            (up, true, (200, "ok")),
            (starting, false, (200, "ok, but evacuations were not listed yet")),
            (starting, true, (503, "evacuations were not listed yet")),
            (down, false, (200, "ok, but evacuations cannot be watched for 35 s: connection refused")),
            (down, true, (503, "evacuations cannot be watched for 35 s: connection refused")),
        ] {
            let (_sender, connection) = watch::channel(connection());
            let health = Health { connection, needs_api, ending: CancellationToken::new() };
            tokio::time::advance(Duration::from_secs(35)).await;
            let (status, text) = health.ready();
            assert_eq!((status.as_u16(), text.as_str()), expected);
        }
    }
}
