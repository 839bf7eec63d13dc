use std::{
    fs::File,
    io::{ErrorKind, Read, Seek, SeekFrom},
    path::Path,
    sync::{Arc, PoisonError},
};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::{ControlPlane, Error, Result};

/// One line of the audit log: a request and its answer, `audit.k8s.io/v1` Event.
///
/// Only `pods/eviction` and `poddisruptionbudgets/status` carry the request's body.
#[derive(Debug, Clone)]
pub struct AuditEvent(Arc<Value>);

impl From<Value> for AuditEvent {
    fn from(event: Value) -> Self {
        Self(Arc::new(event))
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
        let mut read = self.audited.lock().unwrap_or_else(PoisonError::into_inner);
        read.read_on(self.audit_log())?;
        Ok(read.events.clone())
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
        Ok(parse(&read_from(self.audit_log(), mark)?))
    }
}

/// The part of an audit log that was read. Tests look at the log many times a second, and it is megabytes
/// long.
#[derive(Debug, Default)]
pub(crate) struct Audited {
    /// Length of the lines that were read, in bytes.
    length: u64,
    events: Vec<AuditEvent>,
}

impl Audited {
    /// Reads the lines that were written since. A line that is still being written is left for the next time.
    fn read_on(&mut self, path: &Path) -> Result<()> {
        let bytes = read_from(path, self.length)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.events.extend(parse(bytes.get(..whole).unwrap_or_default()));
        self.length += whole as u64;
        Ok(())
    }
}

/// Returns a file's bytes after the first `mark`. None when there is no file.
fn read_from(path: &Path, mark: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut log| {
        log.seek(SeekFrom::Start(mark))?;
        log.read_to_end(&mut bytes)
    });
    match read {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("read", path)(error)),
        _ => Ok(bytes),
    }
}

/// A line that is still being written is no event.
fn parse(bytes: &[u8]) -> Vec<AuditEvent> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).map(AuditEvent::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disruptions_that_a_write_allows_are_read() {
        let line = |object: &str| format!(r#"{{"verb":"update","requestObject":{object}}}"#);
        let allowed = |object: &str| parse(line(object).as_bytes())[0].disruptions_allowed();
        assert_eq!(allowed(r#"{"status":{"disruptionsAllowed":3}}"#), Some(3));
        assert_eq!(allowed("{}"), None);
    }

    #[test]
    fn a_log_is_read_on_from_the_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.json");
        let mut audited = Audited::default();
        let mut verbs = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            audited.read_on(&path).unwrap();
            audited.events.iter().map(|event| event.verb().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let written =
            "{\"verb\":\"get\"}\n{\"verb\":\"list\",\"user\":\"\u{e4}\"}\n{\"verb\":\"watch\"}\n".as_bytes();
        // The second line ends in the middle of a character at first.
        let half = written.iter().position(|byte| *byte == 0xc3).unwrap() + 1;
        for (length, expected) in [(3, ""), (16, "get"), (half, "get"), (written.len(), "get list watch")] {
            assert_eq!(verbs(&written[..length]), expected, "{length}");
        }
    }

    #[test]
    fn an_eviction_is_read_with_who_what_and_when() {
        let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","stage":"ResponseComplete",
            "requestURI":"/api/v1/namespaces/a/pods/p/eviction","verb":"create","user":{"username":"admin"},"userAgent":"kubectl",
            "objectRef":{"resource":"pods","namespace":"a","name":"p","apiVersion":"v1","subresource":"eviction"},
            "responseStatus":{"code":429},"requestReceivedTimestamp":"2026-11-20T10:00:00.000100Z",
            "stageTimestamp":"2026-11-20T10:00:00.012300Z"}"#
            .replace('\n', "");
        let events = parse(format!("{line}\n{{\"verb\":").as_bytes());
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
