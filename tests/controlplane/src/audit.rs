use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::{ControlPlane, Error, Result};

/// One line of the audit log: a request and its answer, `audit.k8s.io/v1` Event.
///
/// Only `pods/eviction` and `poddisruptionbudgets/status` carry the request's body.
#[derive(Debug, Clone)]
pub struct AuditEvent(Value);

impl From<Value> for AuditEvent {
    fn from(event: Value) -> Self {
        Self(event)
    }
}

impl AuditEvent {
    /// The whole event.
    pub fn value(&self) -> &Value {
        &self.0
    }

    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn time(&self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).parse().ok()
    }

    /// The verb: `create`, `update`, `patch`, `delete`, `get`, `list`, `watch`.
    pub fn verb(&self) -> &str {
        self.text("/verb")
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.text("/objectRef/apiGroup")
    }

    /// The resource, in the plural: `pods`.
    pub fn resource(&self) -> &str {
        self.text("/objectRef/resource")
    }

    /// The subresource, or nothing: `eviction`.
    pub fn subresource(&self) -> &str {
        self.text("/objectRef/subresource")
    }

    /// The object's namespace, or nothing.
    pub fn namespace(&self) -> &str {
        self.text("/objectRef/namespace")
    }

    /// The object's name, or nothing.
    pub fn name(&self) -> &str {
        self.text("/objectRef/name")
    }

    /// The user.
    pub fn user(&self) -> &str {
        self.text("/user/username")
    }

    /// The program that asked.
    pub fn user_agent(&self) -> &str {
        self.text("/userAgent")
    }

    /// Stage of the request at which this was written: `ResponseStarted` (of a watch), `ResponseComplete`,
    /// `Panic`.
    pub fn stage(&self) -> &str {
        self.text("/stage")
    }

    /// The answer's HTTP status; 0 when there was none.
    pub fn code(&self) -> u16 {
        let code = self.0.pointer("/responseStatus/code").and_then(Value::as_u64);
        code.and_then(|code| u16::try_from(code).ok()).unwrap_or_default()
    }

    /// Number of disruptions that a write of a budget's status allows; none for other requests.
    pub fn disruptions_allowed(&self) -> Option<i64> {
        self.0.pointer("/requestObject/status/disruptionsAllowed").and_then(Value::as_i64)
    }

    /// Time at which the request arrived, to the microsecond.
    pub fn received(&self) -> Option<Timestamp> {
        self.time("/requestReceivedTimestamp")
    }

    /// Time at which the answer was ready, to the microsecond.
    pub fn answered(&self) -> Option<Timestamp> {
        self.time("/stageTimestamp")
    }
}

impl ControlPlane {
    /// All requests so far, in the order in which they were answered.
    ///
    /// A request is in it before its answer reaches the caller.
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be read.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        self.audit_events_since(0)
    }

    /// The present length of the audit log in bytes, for [`ControlPlane::audit_events_since`].
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be read.
    pub fn audit_mark(&self) -> Result<u64> {
        let path = self.audit_log();
        match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            read => Ok(read.map_err(Error::file("read", path))?.len()),
        }
    }

    /// The requests after a mark, as [`ControlPlane::audit_events`] returns them.
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be read.
    pub fn audit_events_since(&self, mark: u64) -> Result<Vec<AuditEvent>> {
        let path = self.audit_log();
        let mut text = String::new();
        let read = File::open(path).and_then(|mut log| {
            log.seek(SeekFrom::Start(mark))?;
            log.read_to_string(&mut text)
        });
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::file("read", path)(error)),
            Ok(_) => Ok(parse(&text)),
        }
    }
}

/// A line that is still being written is left for the next time.
fn parse(text: &str) -> Vec<AuditEvent> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).map(AuditEvent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disruptions_that_a_write_allows_are_read() {
        let line = |object: &str| format!(r#"{{"verb":"update","requestObject":{object}}}"#);
        let allowed = |object: &str| parse(&line(object))[0].disruptions_allowed();
        assert_eq!(allowed(r#"{"status":{"disruptionsAllowed":3}}"#), Some(3));
        assert_eq!(allowed("{}"), None);
    }

    #[test]
    fn an_eviction_is_read_with_who_what_and_when() {
        let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","stage":"ResponseComplete",
            "requestURI":"/api/v1/namespaces/a/pods/p/eviction","verb":"create","user":{"username":"admin"},"userAgent":"kubectl",
            "objectRef":{"resource":"pods","namespace":"a","name":"p","apiVersion":"v1","subresource":"eviction"},
            "responseStatus":{"code":429},"requestReceivedTimestamp":"2026-11-20T10:00:00.000100Z",
            "stageTimestamp":"2026-11-20T10:00:00.012300Z"}"#
            .replace('\n', "");
        let events = parse(&format!("{line}\n{{\"verb\":"));
        assert_eq!(events.len(), 1, "half a line is no event");
        let event = &events[0];
        assert_eq!((event.verb(), event.resource(), event.subresource()), ("create", "pods", "eviction"));
        assert_eq!((event.namespace(), event.name(), event.group()), ("a", "p", ""));
        assert_eq!((event.user(), event.user_agent(), event.code()), ("admin", "kubectl", 429));
        assert_eq!(event.stage(), "ResponseComplete");
        let took = event.answered().unwrap().duration_since(event.received().unwrap());
        assert_eq!(took.as_micros(), 12_200);
    }
}
