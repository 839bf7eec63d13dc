//! `/livez` and `/readyz`.
//!
//! Ready means: the agent listens and asks for questions. An outage of the API does not make it unready, for then
//! the whole pod would be.

use std::{convert::Infallible, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// How many probes may be under way.
const MAX_CONNECTIONS: usize = 16;
/// How long a probe may take.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until `shutdown`; not ready any more once `ending` is cancelled.
pub(crate) async fn serve(listener: TcpListener, ending: CancellationToken, shutdown: CancellationToken) {
    let mut probes = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(_) = probes.join_next() => {}
            accepted = listener.accept(), if probes.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let ending = ending.clone();
                    probes.spawn(async move {
                        let service = service_fn(|request| {
                            let reply = reply(&request, ending.is_cancelled());
                            std::future::ready(Ok::<_, Infallible>(reply))
                        });
                        let connection = http1::Builder::new()
                            .timer(TokioTimer::new())
                            .keep_alive(false)
                            .max_buf_size(8 * 1024)
                            .serve_connection(TokioIo::new(stream), service);
                        // Whoever probes may leave at any time.
                        tokio::time::timeout(TIMEOUT, connection).await.ok();
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a probe was not heard");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

fn reply(request: &Request<Incoming>, ending: bool) -> Response<Full<Bytes>> {
    let (status, text) = verdict(request.uri().path(), ending);
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

fn verdict(path: &str, ending: bool) -> (StatusCode, &'static str) {
    match (path, ending) {
        ("/livez", _) | ("/readyz", false) => (StatusCode::OK, "ok\n"),
        ("/readyz", true) => (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n"),
        _ => (StatusCode::NOT_FOUND, "not found\n"),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
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
        let server = tokio::spawn(serve(listener, ending.clone(), shutdown.clone()));
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
}
