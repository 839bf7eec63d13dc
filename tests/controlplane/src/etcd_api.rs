//! Faults of etcd that a test brings about through etcd's own JSON gateway.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Error, Etcd, Result};

/// Keys that no client of a test reads.
const FILLER: &str = "/filler/";
/// Size of one filler value in bytes, below etcd's limit of a request.
const VALUE: usize = 1_000_000;
/// Most filler values: more than any quota that a test sets.
const MOST: usize = 1_000;

impl Etcd {
    /// Writes until etcd refuses because its quota is used up. From then on it refuses every write.
    ///
    /// Start it with a small `--quota-backend-bytes`.
    ///
    /// # Errors
    ///
    /// Fails when etcd does not answer, or accepts a gigabyte.
    pub async fn fill(&self) -> Result<()> {
        let value = STANDARD.encode(vec![b'x'; VALUE]);
        for number in 0..MOST {
            let key = STANDARD.encode(format!("{FILLER}{number}"));
            let reply = self.call("/v3/kv/put", &json!({"key": key, "value": value})).await?;
            if reply.to_string().contains("database space exceeded") {
                return Ok(());
            }
        }
        Err(self.failed("it accepts every write"))
    }

    /// Removes what [`Etcd::fill`] wrote, makes its space free, and ends the alarm: etcd accepts writes
    /// again.
    ///
    /// # Errors
    ///
    /// Fails when etcd does not answer.
    pub async fn make_room(&self) -> Result<()> {
        let range = json!({
            "key": STANDARD.encode(FILLER), "range_end": STANDARD.encode("/filler0"),
        });
        let deleted = self.call("/v3/kv/deleterange", &range).await?;
        let revision = deleted.pointer("/header/revision").cloned().unwrap_or_default();
        self.call("/v3/kv/compaction", &json!({"revision": revision, "physical": true})).await?;
        self.call("/v3/maintenance/defragment", &json!({})).await?;
        let alarm = "/v3/maintenance/alarm";
        let raised = self.call(alarm, &json!({"action": "GET"})).await?;
        // An alarm is of a member: without its ID nothing is ended.
        for raised in raised.get("alarms").and_then(Value::as_array).into_iter().flatten() {
            let of = |name: &str| raised.get(name).cloned().unwrap_or_default();
            let end = json!({"action": "DEACTIVATE", "memberID": of("memberID"), "alarm": of("alarm")});
            self.call(alarm, &end).await?;
        }
        Ok(())
    }

    /// Writes a value past every API server.
    ///
    /// # Errors
    ///
    /// Fails when etcd does not answer, or refuses.
    pub async fn put(&self, key: &str, value: &str) -> Result<()> {
        let put = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
        let reply = self.call("/v3/kv/put", &put).await?;
        reply.get("header").map(drop).ok_or_else(|| self.failed(&reply.to_string()))
    }

    /// One call of the gateway. etcd's own errors are in the reply.
    async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let replies = self.stream(path, body).await?;
        replies.into_iter().next().ok_or_else(|| self.failed("it answers nothing"))
    }

    /// One call of the gateway whose reply has several parts.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Result<Vec<Value>> {
        let address = self.endpoint().trim_start_matches("http://").to_owned();
        let exchange = async {
            let body = body.to_string();
            let mut stream = TcpStream::connect(&address).await?;
            let head = format!(
                "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).await?;
            std::io::Result::Ok(reply)
        };
        let reply = exchange.await.map_err(|error| self.failed(&error.to_string()))?;
        let reply = String::from_utf8_lossy(&reply);
        let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let parts: std::result::Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(body).into_iter().collect();
        parts.map_err(|error| self.failed(&format!("{error}: {reply}")))
    }

    pub(crate) fn failed(&self, why: &str) -> Error {
        let source = std::io::Error::other(why.to_owned());
        Error::Process { action: "call", name: self.component().process().name().to_owned(), source }
    }
}
