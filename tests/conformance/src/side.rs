//! One of the two servers, and its values for the place holders of requests.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::time::timeout;

use crate::{GROUP, Reply, Request, reply::Names};

/// Maximum time of a request.
const LONGEST: Duration = Duration::from_secs(90);
/// Name under which the requests are sent.
const USER_AGENT: &str = "conformance/1.0";

/// One of the two servers in one namespace, during one sequence.
pub struct Side {
    client: Client,
    group: &'static str,
    namespace: String,
    names: Names,
    /// Value of each place holder.
    values: HashMap<String, String>,
}

impl Side {
    /// Returns the side that serves `group`.
    pub fn new(client: Client, group: &'static str, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { client, group, namespace, names: Names::default(), values: HashMap::new() }
    }

    /// Sends a request and returns the normalised reply; `None` when a place holder has no value.
    ///
    /// # Errors
    ///
    /// The server did not answer.
    pub async fn send(&mut self, request: &Request) -> anyhow::Result<Option<Reply>> {
        let Some(sent) = self.request(request)? else { return Ok(None) };
        let response = timeout(LONGEST, self.client.send(sent)).await.context("no answer in time")?;
        let (head, body) =
            response.with_context(|| format!("{}: no answer to {request}", self.group))?.into_parts();
        let body = timeout(LONGEST, body.collect()).await.context("the body did not end in time")?;
        let bytes =
            body.with_context(|| format!("{}: the reply to {request} broke off", self.group))?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).replace(self.group, GROUP);
        let content = Reply::parse(&head, &text, request.is_watch());
        self.learn(&content.body);
        Ok(Some(content.normalised(&mut self.names)))
    }

    /// Removes all objects, whatever their finalizers.
    ///
    /// # Errors
    ///
    /// The objects do not vanish.
    pub async fn clear(&mut self) -> anyhow::Result<()> {
        for _ in 0..50 {
            let listed = self.plain(&Request::new(http::Method::GET, "")).await?;
            let items = listed.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
            if items.is_empty() {
                (self.names, self.values) = (Names::default(), HashMap::new());
                return Ok(());
            }
            for item in items {
                let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                let path = format!("/{name}");
                if item.pointer("/metadata/finalizers").is_some() {
                    let free = r#"{"metadata":{"finalizers":null}}"#;
                    let freeing = Request::new(http::Method::PATCH, path.clone());
                    self.plain(&freeing.body("application/merge-patch+json", free)).await?;
                }
                self.plain(&Request::new(http::Method::DELETE, path)).await?;
            }
        }
        bail!("the objects of {} in {} stay", self.group, self.namespace)
    }

    async fn plain(&self, request: &Request) -> anyhow::Result<Value> {
        let sent = self.request(request)?.context("a request without place holders")?;
        let body = self.client.send(sent).await.context("no answer")?.into_body().collect().await?;
        Ok(serde_json::from_slice(&body.to_bytes()).unwrap_or_default())
    }

    fn request(&self, request: &Request) -> anyhow::Result<Option<http::Request<Body>>> {
        let path = format!("/apis/{}/v1/namespaces/{}/fleets{}", self.group, self.namespace, request.path);
        let mut query = String::new();
        for (key, value) in &request.query {
            let Some(value) = self.resolve(value) else { return Ok(None) };
            let separator = if query.is_empty() { '?' } else { '&' };
            query.extend([separator.to_string(), (*key).to_owned(), "=".to_owned(), encode(&value)]);
        }
        let body = match &request.body {
            Some(body) => match self.resolve(body) {
                Some(body) => body.into_bytes(),
                None => return Ok(None),
            },
            None => Vec::new(),
        };
        let mut sent = http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{path}{query}"))
            .header("user-agent", USER_AGENT)
            // The client cannot read a compressed watch.
            .header("accept-encoding", "identity");
        for (name, value) in &request.headers {
            sent = sent.header(*name, value);
        }
        Ok(Some(sent.body(Body::from(body))?))
    }

    /// Replaces the place holders, and the group by the side's own.
    fn resolve(&self, text: &str) -> Option<String> {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}")?;
            resolved.push_str(before);
            resolved.push_str(if name == "namespace" { &self.namespace } else { self.values.get(name)? });
            rest = after;
        }
        resolved.push_str(rest);
        Some(resolved.replace(GROUP, self.group))
    }

    /// Notes the values of place holders that a reply has.
    fn learn(&mut self, body: &Value) {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/kind");
        if kind == "Fleet" || kind == "Scale" {
            self.learn_object(body);
        } else if kind.ends_with("List") {
            self.values.insert("list".to_owned(), text("/metadata/resourceVersion").to_owned());
            let token = text("/metadata/continue");
            if !token.is_empty() {
                self.values.insert("continue".to_owned(), token.to_owned());
            }
            body.get("items")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .for_each(|item| self.learn_object(item));
        }
    }

    fn learn_object(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (Some(name), Some(version), Some(uid)) =
            (text("/metadata/name"), text("/metadata/resourceVersion"), text("/metadata/uid"))
        else {
            return;
        };
        self.values.entry(format!("old {name}")).or_insert_with(|| version.clone());
        self.values.insert(format!("rv {name}"), version);
        self.values.insert(format!("uid {name}"), uid);
    }
}

/// Encodes the value of a parameter.
fn encode(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    value
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
