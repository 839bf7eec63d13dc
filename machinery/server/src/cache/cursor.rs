//! Position in the watch of the store.

/// Position in a watch of the store, at which the watch can be resumed after an error. No write is lost or
/// repeated.
///
/// A commit can write several keys at one revision, and the stream can break between them. The watch is
/// therefore resumed one revision earlier unless that commit is known to be complete. Keys that were read are
/// skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    revision: i64,
    /// Keys that were read at `revision`; empty when that commit is known to be complete.
    read: Vec<String>,
}

impl Cursor {
    /// The position after everything up to that revision.
    pub(crate) fn complete(revision: i64) -> Self {
        Self { revision, read: Vec::new() }
    }

    /// Returns the revision after which to resume the watch.
    pub(crate) fn resume_after(&self) -> i64 {
        if self.read.is_empty() { self.revision } else { self.revision - 1 }
    }

    /// Records a write. Returns true when it is new.
    pub(crate) fn advance(&mut self, revision: i64, key: &str) -> bool {
        if revision > self.revision {
            *self = Self { revision, read: vec![key.to_owned()] };
            return true;
        }
        let new =
            revision == self.revision && !self.read.is_empty() && !self.read.iter().any(|read| read == key);
        if new {
            self.read.push(key.to_owned());
        }
        new
    }

    /// Records that everything up to that revision was read.
    pub(crate) fn progress(&mut self, revision: i64) {
        if revision >= self.revision {
            *self = Self::complete(revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_was_torn_by_an_error_is_read_to_its_end_and_not_twice() {
        let mut cursor = Cursor::complete(4);
        assert_eq!(cursor.resume_after(), 4);
        assert!(cursor.advance(5, "a"));
        assert_eq!(cursor.resume_after(), 4, "5 may go on");
        assert!(!cursor.advance(5, "a"), "a repetition");
        assert!(cursor.advance(5, "b"), "the rest of 5");
        assert!(cursor.advance(6, "a"));
        assert!(!cursor.advance(5, "b"), "long read");
        cursor.progress(6);
        assert_eq!(cursor.resume_after(), 6);
        assert!(!cursor.advance(6, "a"));
        cursor.progress(3);
        assert_eq!(cursor.resume_after(), 6, "progress never goes back");
    }
}
