//! An app's HTTP endpoint, played by the test at a pod's address, so that it can misbehave in every way.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use controlplane::eventually;
use evacuation_api::{EvacuationReview, ReviewAction, ReviewRequest};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::scene::{PATIENCE, Scene};

/// What an endpoint does with a question.
pub(crate) enum Reply {
    /// Nothing, for ever.
    Hang,
    /// Closes the connection.
    Close,
    /// These bytes, headers and all.
    Bytes(Vec<u8>),
    /// 200 with that JSON.
    Json(Value),
    /// An answer, but only this long after the question.
    Late(Duration, Value),
}

/// An app's endpoint. It ends when this is dropped.
pub(crate) struct Endpoint {
    asked: Arc<Mutex<VecDeque<ReviewRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    /// Listens at the pod's address.
    pub(crate) async fn of(
        scene: &Scene,
        pod: &Pod,
        reply: impl Fn(&ReviewRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let ip = pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap();
        let address = SocketAddr::new(ip.parse().unwrap(), scene.port);
        let listener = TcpListener::bind(address).await.unwrap();
        let asked = Arc::default();
        let task = tokio::spawn(serve(listener, Arc::clone(&asked), Arc::new(reply)));
        Self { asked, task }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<ReviewRequest> {
        self.asked.lock().unwrap().iter().cloned().collect()
    }

    /// Waits for a question that means this.
    pub(crate) async fn hears(&self, action: ReviewAction) -> ReviewRequest {
        let heard = eventually(PATIENCE, "a question", || async {
            let asked = self.asked();
            asked
                .iter()
                .find(|question| question.action == action)
                .cloned()
                .ok_or_else(|| format!("{asked:?}"))
        });
        heard.await.unwrap()
    }
}

/// The reply that gives an answer to a question.
pub(crate) fn answering(question: &ReviewRequest, more: Value) -> Value {
    let mut response = more;
    response["evacuationUid"] = json!(question.evacuation.uid);
    response["podUid"] = json!(question.pod.uid);
    json!({"response": response})
}

/// A reply of 200 with that type and body.
pub(crate) fn ok(content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn serve(
    listener: TcpListener,
    asked: Arc<Mutex<VecDeque<ReviewRequest>>>,
    reply: Arc<dyn Fn(&ReviewRequest) -> Reply + Send + Sync>,
) {
    // The connections end with the endpoint.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (asked, reply) = (Arc::clone(&asked), Arc::clone(&reply));
        connections.spawn(async move {
            // Whoever asks may leave at any time.
            exchange(stream, &asked, &*reply).await.ok();
        });
    }
}

async fn exchange(
    mut stream: TcpStream,
    asked: &Mutex<VecDeque<ReviewRequest>>,
    reply: &(dyn Fn(&ReviewRequest) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let body = read_body(&mut stream).await?;
    let review: EvacuationReview = serde_json::from_slice(&body)?;
    let question = review.request.unwrap();
    asked.lock().unwrap().push_back(question.clone());
    let json = |value: Value| ok("application/json", value.to_string().as_bytes());
    let bytes = match reply(&question) {
        Reply::Hang => return std::future::pending().await,
        Reply::Close => return Ok(()),
        Reply::Bytes(bytes) => bytes,
        Reply::Json(value) => json(value),
        Reply::Late(after, value) => {
            tokio::time::sleep(after).await;
            json(value)
        }
    };
    stream.write_all(&bytes).await?;
    stream.shutdown().await
}

/// The body of a request with a Content-Length.
async fn read_body(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.trim().parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            return Ok(body.to_vec());
        }
    }
}
