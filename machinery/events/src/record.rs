//! One notice about one object, as it waits for the publisher.

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};

use super::Notice;

/// Maximum length of a note, in bytes, that the API accepts.
const MAX_NOTE: usize = 1024;

/// A notice about an object, with the number of times that it was given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) notice: Notice,
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) count: i32,
    /// Time at which the notice was given first.
    pub(super) time: Timestamp,
}

/// The object and the reason of a record: records with different keys are never one Event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RecordKey {
    kind: String,
    uid: String,
    reason: &'static str,
}

impl Record {
    /// Returns a record of a notice that was given once. Its note is cut to the length that the API accepts.
    pub(super) fn new(
        mut notice: Notice,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
    ) -> Self {
        notice.note.truncate(notice.note.floor_char_boundary(MAX_NOTE));
        Self { notice, regarding, related, count: 1, time: Timestamp::now() }
    }

    /// Returns the object and the reason.
    pub(super) fn key(&self) -> RecordKey {
        RecordKey {
            kind: self.regarding.kind.clone().unwrap_or_default(),
            uid: self.regarding.uid.clone().unwrap_or_default(),
            reason: self.notice.reason,
        }
    }

    /// Returns the namespace of the object; empty for an object outside namespaces.
    pub(super) fn namespace(&self) -> &str {
        self.regarding.namespace.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_where_the_api_would_refuse_it() {
        let note = |note: &str| {
            Record::new(Notice::normal("X", note.to_owned()), ObjectReference::default(), None).notice.note
        };
        assert_eq!(note("short"), "short");
        let long = "ü".repeat(600);
        assert_eq!(note(&long), "ü".repeat(512));
        assert_eq!(note(&format!("x{long}")).len(), 1023);
    }
}
