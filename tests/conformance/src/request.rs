//! Requests, before they are sent to either side.

use std::fmt;

use http::Method;

/// A request for the kind Fleet, in the words of the example kind.
///
/// Query and body have place holders, which each side replaces by its own values: `{{rv a}}` is the newest
/// resourceVersion of the object `a`, `{{old a}}` its first one, `{{uid a}}` its UID, `{{list}}` the
/// resourceVersion of the last list, `{{continue}}` the token of the last list.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Path below the collection: empty, `/a`, `/a/status`, `/a/scale`.
    pub path: String,
    /// Parameters, not yet encoded.
    pub query: Vec<(&'static str, String)>,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Option<String>,
}

impl Request {
    /// Returns a request without parameters and headers.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// Adds parameters.
    #[must_use]
    pub fn query(mut self, query: Vec<(&'static str, String)>) -> Self {
        self.query.extend(query);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body and its media type; an empty type sends no header.
    #[must_use]
    pub fn body(mut self, media_type: &str, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        if media_type.is_empty() { self } else { self.header("content-type", media_type) }
    }

    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }

    /// Returns true for a watch.
    pub fn is_watch(&self) -> bool {
        self.method == Method::GET && self.parameter("watch").is_some_and(|watch| watch != "false")
    }
}

/// One line that a person can send again.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fleets{}", self.method, self.path)?;
        for (at, (key, value)) in self.query.iter().enumerate() {
            write!(f, "{}{key}={value}", if at == 0 { '?' } else { '&' })?;
        }
        for (name, value) in &self.headers {
            write!(f, " -H '{name}: {value}'")?;
        }
        match &self.body {
            Some(body) if body.len() > 2000 => write!(f, " -d <{} bytes>", body.len()),
            Some(body) => write!(f, " -d '{body}'"),
            None => Ok(()),
        }
    }
}
