//! Signs that etcd went back to an earlier state.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use etcd_client::proto::PbResponseHeader;
use tokio::sync::watch;

use crate::{History, Operation};

/// Sign that etcd went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The members form another cluster: a snapshot was restored under another token or other peer URLs.
    Cluster,
    /// A read shows a lower revision than one that was known before the read began.
    Revision,
    /// The raft term is lower: a restored snapshot begins a log of its own.
    Term,
    /// A key that this process wrote was last changed before that write.
    Write,
    /// The call began before another call saw a sign.
    Earlier,
}

impl fmt::Display for Sign {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cluster => "etcd went back: it has another cluster ID",
            Self::Revision => "etcd went back: its revision is lower than before",
            Self::Term => "etcd went back: its raft term is lower than before",
            Self::Write => "etcd went back: it lacks a write that it took",
            Self::Earlier => "etcd went back during the call",
        })
    }
}

impl std::error::Error for Sign {}

/// State of etcd that linearisable calls and watches have shown. 0 stands for unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    history: u64,
    cluster: u64,
    term: u64,
    revision: i64,
}

impl Mark {
    fn of(history: u64, header: &PbResponseHeader) -> Self {
        Self { history, cluster: header.cluster_id, term: header.raft_term, revision: header.revision }
    }

    /// Returns the sign in a state that was read after this one.
    fn sign(self, later: Self) -> Option<Sign> {
        if self.cluster != 0 && later.cluster != self.cluster {
            Some(Sign::Cluster)
        } else if later.revision < self.revision {
            Some(Sign::Revision)
        } else if later.term < self.term {
            Some(Sign::Term)
        } else {
            None
        }
    }
}

/// A write of this process that etcd took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    pub(super) key: String,
    pub(super) revision: i64,
}

/// Highest state that etcd has shown, and the number of the history that it belongs to.
///
/// Only replies of linearisable calls show a sign, and each is compared with the state that was known before
/// its call began. Replies of concurrent calls can come in any order. An event of a watch proves that etcd
/// had reached its revision.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    known: Mutex<Known>,
    number: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    mark: Mark,
    witness: Option<Witness>,
    /// True after a watch broke. The witness is kept then until a new watch was checked against it.
    suspect: bool,
}

impl Lineage {
    pub(super) fn history(&self) -> History {
        History::counted(self.number.subscribe())
    }

    /// Returns the state that is known before a call.
    pub(super) fn mark(&self) -> Mark {
        self.known().mark
    }

    /// Returns the write to look for.
    pub(super) fn witness(&self) -> Option<Witness> {
        self.known().witness.clone()
    }

    /// Records the reply to a call that began at `before`.
    ///
    /// # Errors
    ///
    /// The sign in the reply. A new history has begun then.
    pub(super) fn accept(&self, before: Mark, header: Option<&PbResponseHeader>) -> Result<(), Sign> {
        let Some(header) = header else { return Ok(()) };
        let mut known = self.known();
        if known.mark.history != before.history {
            return Err(Sign::Earlier);
        }
        let read = Mark::of(before.history, header);
        if let Some(sign) = before.sign(read) {
            self.begin(&mut known, read, sign);
            return Err(sign);
        }
        let mark = &mut known.mark;
        mark.cluster = read.cluster;
        mark.term = mark.term.max(read.term);
        mark.revision = mark.revision.max(read.revision);
        Ok(())
    }

    /// Records the revision that last changed the key of `witness`, read by a call that began at `before`.
    /// `None` proves nothing: another process may have removed the key.
    ///
    /// # Errors
    ///
    /// The key was last changed before the write. A new history has begun then.
    pub(super) fn testify(
        &self,
        before: Mark,
        witness: Option<&Witness>,
        found: Option<i64>,
    ) -> Result<(), Sign> {
        let mut known = self.known();
        if known.mark.history != before.history {
            return Err(Sign::Earlier);
        }
        if let (Some(witness), Some(found)) = (witness, found)
            && found < witness.revision
        {
            let read = known.mark;
            self.begin(&mut known, read, Sign::Write);
            return Err(Sign::Write);
        }
        known.suspect = false;
        Ok(())
    }

    /// Records the revision of an event of a watch that began in the history of `opened`.
    pub(super) fn watched(&self, opened: Mark, revision: i64) {
        let mark = &mut self.known().mark;
        if mark.history == opened.history {
            mark.revision = mark.revision.max(revision);
        }
    }

    /// Records that a watch broke: etcd may have been restored.
    pub(super) fn suspect(&self) {
        self.known().suspect = true;
    }

    /// Records the first write of a transaction that was carried out at `revision`.
    pub(super) fn wrote(&self, operations: &[Operation], revision: i64) {
        let put = operations.iter().find_map(|operation| match operation {
            Operation::Put(key, _) => Some(key.clone()),
            Operation::Delete(_) => None,
        });
        let mut known = self.known();
        let newer = known.witness.as_ref().is_none_or(|witness| witness.revision < revision);
        if let Some(key) = put.filter(|_| newer && !known.suspect) {
            known.witness = Some(Witness { key, revision });
        }
    }

    fn begin(&self, known: &mut Known, read: Mark, sign: Sign) {
        let history = read.history + 1;
        tracing::warn!(
            history,
            revision = read.revision,
            known = known.mark.revision,
            "{sign}: what was read before is dropped"
        );
        *known = Known { mark: Mark { history, ..read }, ..Known::default() };
        // Under the lock: a caller that gets the error sees the new number, too.
        self.number.send_replace(history);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn header(cluster_id: u64, raft_term: u64, revision: i64) -> PbResponseHeader {
        PbResponseHeader { cluster_id, raft_term, revision, ..PbResponseHeader::default() }
    }

    fn read(lineage: &Lineage, header: &PbResponseHeader) -> Result<(), Sign> {
        lineage.accept(lineage.mark(), Some(header))
    }

    fn put(key: &str) -> [Operation; 2] {
        [Operation::Delete("/b".to_owned()), Operation::Put(key.to_owned(), Bytes::new())]
    }

    #[test]
    fn each_sign_begins_a_new_history_once() {
        let cases = [
            (header(7, 3, 100), None),
            (header(7, 4, 101), None),
            (header(8, 3, 200), Some(Sign::Cluster)),
            (header(7, 3, 99), Some(Sign::Revision)),
            (header(7, 2, 200), Some(Sign::Term)),
        ];
        for (later, sign) in cases {
            let lineage = Lineage::default();
            let history = lineage.history();
            read(&lineage, &header(7, 3, 100)).unwrap();
            assert_eq!(read(&lineage, &later).err(), sign, "{later:?}");
            assert_eq!(history.number(), u64::from(sign.is_some()));
            assert_eq!(read(&lineage, &later), Ok(()), "{later:?} is the new state");
        }
    }

    #[test]
    fn a_revision_that_only_a_watch_has_shown_is_known_and_one_of_an_earlier_history_is_not() {
        let lineage = Lineage::default();
        read(&lineage, &header(7, 3, 100)).unwrap();
        let opened = lineage.mark();
        lineage.watched(opened, 105);
        lineage.watched(opened, 103);
        assert_eq!(lineage.mark().revision, 105);
        assert_eq!(read(&lineage, &header(7, 3, 102)), Err(Sign::Revision));
        lineage.watched(opened, 106);
        assert_eq!(lineage.mark().revision, 102, "the watch is of the history before");
        assert_eq!(read(&lineage, &header(7, 3, 103)), Ok(()));
    }

    #[test]
    fn replies_that_overtake_each_other_are_no_sign() {
        let lineage = Lineage::default();
        let (slow, fast) = (lineage.mark(), lineage.mark());
        lineage.accept(fast, Some(&header(7, 3, 100))).unwrap();
        lineage.accept(slow, Some(&header(7, 2, 90))).unwrap();
        assert_eq!(lineage.mark(), Mark { history: 0, cluster: 7, term: 3, revision: 100 });
    }

    #[test]
    fn a_reply_of_the_history_before_fails_and_begins_no_other() {
        let lineage = Lineage::default();
        read(&lineage, &header(7, 3, 100)).unwrap();
        let before = lineage.mark();
        assert_eq!(read(&lineage, &header(7, 3, 50)), Err(Sign::Revision));
        assert_eq!(lineage.accept(before, Some(&header(7, 3, 101))), Err(Sign::Earlier));
        assert_eq!(lineage.testify(before, None, None), Err(Sign::Earlier));
        assert_eq!(lineage.history().number(), 1);
    }

    #[test]
    fn a_write_that_etcd_lacks_is_a_sign_and_later_writes_do_not_hide_it() {
        let lineage = Lineage::default();
        lineage.wrote(&put("/a"), 10);
        let witness = lineage.witness().unwrap();
        assert_eq!((witness.key.as_str(), witness.revision), ("/a", 10));
        for found in [None, Some(10), Some(11)] {
            assert_eq!(lineage.testify(lineage.mark(), Some(&witness), found), Ok(()), "{found:?}");
        }
        lineage.suspect();
        lineage.wrote(&put("/c"), 12);
        assert_eq!(lineage.witness(), Some(witness.clone()));
        assert_eq!(lineage.testify(lineage.mark(), Some(&witness), Some(9)), Err(Sign::Write));
        assert_eq!((lineage.history().number(), lineage.witness()), (1, None));
    }
}
