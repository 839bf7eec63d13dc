//! A plain HTTP client.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream::BoxStream};
use reqwest::{Method, header::HeaderMap};
use serde_json::{Value, json};

/// Maximum time for an answer or an event.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that says it is a user.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    user: String,
    skips_unreadable: bool,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// URL of the answer, after redirects.
    pub(crate) url: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON of an answer that must have that code.
    pub(crate) fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.json()
    }

    /// The failure that must have that code and reason.
    pub(crate) fn refused(&self, code: u16, reason: &str) -> Value {
        let status = self.expect(code);
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["apiVersion"], "v1", "{status}");
        assert_eq!(status["status"], "Failure", "{status}");
        assert_eq!(status["reason"], reason, "{status}");
        assert_eq!(status["code"], code, "{status}");
        status
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Client {
    pub(crate) fn new(url: &str, user: &str) -> Self {
        // Any test may be first: it is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().build().expect("a client");
        Self { http, url: url.to_owned(), user: user.to_owned(), skips_unreadable: false }
    }

    /// The same, in requests that skip objects that cannot be read.
    pub(crate) fn skipping_unreadable(self) -> Self {
        Self { skips_unreadable: true, ..self }
    }

    /// The same over TLS, trusting that CA and showing that certificate with its key, all PEM.
    pub(crate) fn certified(self, ca: &str, identity: Option<&str>) -> Self {
        let ca = reqwest::Certificate::from_pem(ca.as_bytes()).expect("a certificate");
        let mut builder = reqwest::Client::builder().tls_certs_only([ca]);
        if let Some(identity) = identity {
            builder =
                builder.identity(reqwest::Identity::from_pem(identity.as_bytes()).expect("an identity"));
        }
        Self { http: builder.build().expect("a client"), ..self }
    }

    /// Sends a request with these headers.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = self.http.request(method, format!("{}{path}", self.url)).timeout(PATIENCE);
        if !self.user.is_empty() {
            request = request.header("x-user", &self.user);
        }
        if self.skips_unreadable {
            request = request.header("unreadable-objects", "skip");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        let response = request.send().await.expect("an answer");
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let url = response.url().to_string();
        Answer { code, headers, url, body: response.bytes().await.expect("a body") }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Bytes::new()).await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.send("GET", path, &[("accept", accept)], Bytes::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.with_json("POST", path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.with_json("PUT", path, body).await
    }

    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Answer {
        let headers = [("content-type", "application/merge-patch+json")];
        self.send("PATCH", path, &headers, change.to_string().into()).await
    }

    pub(crate) async fn strategic(&self, path: &str, change: &Value) -> Answer {
        let headers = [("content-type", "application/strategic-merge-patch+json")];
        self.send("PATCH", path, &headers, change.to_string().into()).await
    }

    pub(crate) async fn json_patch(&self, path: &str, change: &Value) -> Answer {
        let headers = [("content-type", "application/json-patch+json")];
        self.send("PATCH", path, &headers, change.to_string().into()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], Bytes::new()).await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.with_json("DELETE", path, options).await
    }

    async fn with_json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], body.to_string().into()).await
    }

    /// Creates a pot in the namespace `n` and returns it.
    pub(crate) async fn create_pot(&self, name: &str, spec: Value) -> Value {
        self.post("/apis/kitchen.dev/v1/namespaces/n/pots", &pot(name, spec)).await.expect(201)
    }

    /// Starts a watch, which must be granted.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let request = self.http.get(format!("{}{path}", self.url));
        let mut request = request.header("x-user", &self.user).header("accept", accept);
        if self.skips_unreadable {
            request = request.header("unreadable-objects", "skip");
        }
        let response =
            tokio::time::timeout(PATIENCE, request.send()).await.expect("in time").expect("an answer");
        assert_eq!(response.status().as_u16(), 200, "{path}");
        let stream = response.bytes_stream().map(|chunk| chunk.map_err(|error| error.to_string())).boxed();
        Watch { stream, buffer: BytesMut::new() }
    }
}

/// A pot.
pub(crate) fn pot(name: &str, spec: impl Into<Value>) -> Value {
    let spec = spec.into();
    json!({"apiVersion": "kitchen.dev/v1", "kind": "Pot", "metadata": {"name": name}, "spec": spec})
}

/// A watch under way.
pub(crate) struct Watch {
    stream: BoxStream<'static, Result<Bytes, String>>,
    buffer: BytesMut,
}

impl Watch {
    /// The next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("an event in time")
    }

    /// The next event that is no bookmark: its type, the object's name and its resourceVersion.
    pub(crate) async fn event(&mut self) -> (String, String, i64) {
        loop {
            let event = self.next().await.expect("an event, not the end");
            if event["type"] != "BOOKMARK" {
                return summary(&event);
            }
        }
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Some(serde_json::from_slice(&line).expect("JSON lines"));
            }
            match self.stream.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => panic!("the watch broke: {error}"),
                None => return None,
            }
        }
    }
}

/// The resourceVersion of an object or a list.
pub(crate) fn revision(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
}

/// The type of an event, the object's name and its resourceVersion.
pub(crate) fn summary(event: &Value) -> (String, String, i64) {
    let metadata = &event["object"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&metadata["resourceVersion"]).parse().unwrap_or_default();
    (text(&event["type"]), text(&metadata["name"]), version)
}
