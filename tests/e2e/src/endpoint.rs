//! An app's HTTP endpoint, played at a pod's address, so that it can misbehave in every way.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use chrono::{DateTime, Utc};
use controlplane::eventually;
use evacuation_api::{EvacuationReview, ReviewAction, ReviewRequest};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// Time limit for a question to arrive on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Reaction of an endpoint to a question.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Nothing, for ever.
    Hang,
    /// Closes the connection.
    Close,
    /// These bytes, headers and all.
    Bytes(Vec<u8>),
    /// 200 with that JSON.
    Json(Value),
    /// 200 with that JSON, once the token is canceled.
    Held(CancellationToken, Value),
    /// An answer of which one byte comes at a time, with such pauses.
    Drip(Duration, Value),
}

/// An app's endpoint. It ends when this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

/// A question, and when it arrived.
#[derive(Clone, Debug)]
struct Asked {
    at: DateTime<Utc>,
    question: ReviewRequest,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    /// Listens at the pod's address.
    ///
    /// # Errors
    ///
    /// Fails when the pod has no address, or somebody listens there.
    pub async fn of(
        pod: &Pod,
        port: u16,
        reply: impl Fn(&ReviewRequest) -> Reply + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let status = pod.status.as_ref();
        let ip = status.and_then(|status| status.pod_ip.as_ref()).context("the pod has no IP")?;
        let listener = TcpListener::bind(SocketAddr::new(ip.parse()?, port)).await?;
        let asked = Arc::default();
        let task = tokio::spawn(serve(listener, Arc::clone(&asked), Arc::new(reply)));
        Ok(Self { asked, task })
    }

    /// The questions so far.
    pub fn asked(&self) -> Vec<ReviewRequest> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().map(|asked| asked.question.clone()).collect()
    }

    /// Waits for a question that means this.
    ///
    /// # Errors
    ///
    /// Fails when none comes.
    pub async fn hears(&self, action: ReviewAction) -> anyhow::Result<ReviewRequest> {
        Ok(self.heard(action).await?.question)
    }

    /// Waits for a question that means this, and returns when it arrived.
    ///
    /// # Errors
    ///
    /// Fails when none comes.
    pub async fn hears_at(&self, action: ReviewAction) -> anyhow::Result<DateTime<Utc>> {
        Ok(self.heard(action).await?.at)
    }

    async fn heard(&self, action: ReviewAction) -> anyhow::Result<Asked> {
        let heard = eventually(PATIENCE, "a question", || async {
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let found = asked.iter().find(|asked| asked.question.action == action);
            found.cloned().ok_or_else(|| format!("{asked:?}"))
        });
        Ok(heard.await?)
    }
}

/// The reply that gives an answer to a question: `answer` is its object, to which both UIDs are added.
pub fn answering(question: &ReviewRequest, answer: Value) -> Value {
    let mut response = answer;
    if let Some(fields) = response.as_object_mut() {
        fields.insert("evacuationUid".to_owned(), json!(question.evacuation.uid));
        fields.insert("podUid".to_owned(), json!(question.pod.uid));
    }
    json!({"response": response})
}

/// A reply of 200 with that type and body.
pub fn ok(content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

async fn serve(
    listener: TcpListener,
    asked: Arc<Mutex<Vec<Asked>>>,
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
    asked: &Mutex<Vec<Asked>>,
    reply: &(dyn Fn(&ReviewRequest) -> Reply + Send + Sync),
) -> std::io::Result<()> {
    let body = read_body(&mut stream).await?;
    let review: EvacuationReview = serde_json::from_slice(&body)?;
    let Some(question) = review.request else {
        return Err(std::io::ErrorKind::InvalidData.into());
    };
    let one = Asked { at: Utc::now(), question: question.clone() };
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    let json = |value: Value| ok("application/json", value.to_string().as_bytes());
    let bytes = match reply(&question) {
        Reply::Hang => return std::future::pending().await,
        Reply::Close => return Ok(()),
        Reply::Bytes(bytes) => bytes,
        Reply::Json(value) => json(value),
        Reply::Held(released, value) => {
            released.cancelled().await;
            json(value)
        }
        Reply::Drip(pause, value) => {
            for byte in json(value) {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(pause).await;
            }
            return stream.shutdown().await;
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
        bytes.extend(chunk.iter().take(read));
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let (head, body) = bytes.split_at(end + 4);
        let head = String::from_utf8_lossy(head).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.trim().parse().ok())
            .unwrap_or(0);
        if body.len() >= length {
            return Ok(body.to_vec());
        }
    }
}
