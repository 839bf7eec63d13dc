//! A document as it is served.

use std::fmt::Write;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The media type of plain documents.
pub const JSON: &str = "application/json";

/// One document: its bytes, what they are, and a hash of them. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    body: Vec<u8>,
    content_type: &'static str,
    hash: String,
}

impl Document {
    /// The JSON of a value.
    ///
    /// # Errors
    ///
    /// The value cannot be written as JSON.
    pub fn new(content_type: &'static str, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let body = serde_json::to_vec(value)?;
        let mut hash = String::with_capacity(64);
        for byte in Sha256::digest(&body) {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Ok(Self { body, content_type, hash })
    }

    /// The bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// The hash of the bytes: upper-case hexadecimal.
    ///
    /// Clients ask for a document of OpenAPI v3 with `?hash=HASH`, from the index. With the right hash the
    /// reply never grows old (`Cache-Control: public, immutable`); with another one it is a redirect (301) to
    /// the right one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The value of the header `ETag`: the hash in quotes.
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }

    /// True if a request with that `If-None-Match` gets a 304.
    pub fn matches(&self, if_none_match: &str) -> bool {
        if_none_match
            .split(',')
            .map(str::trim)
            .any(|tag| tag == "*" || tag.trim_start_matches("W/") == self.etag())
    }
}
