//! The tables of the file, and their records.

use bytes::Bytes;
use redb::TableDefinition;

use crate::{KeyValue, WatchEvent};

/// Content of a key: the revision that created it, the revision that last changed it, the value.
pub(super) type Held<'a> = (i64, i64, &'a [u8]);

/// Change: the time of its commit (milliseconds since 1970), the key, the content after it, the content
/// before it. The content after a removal is empty. It does not repeat the revision of the change.
pub(super) type Change<'a> = (i64, &'a str, Option<(i64, &'a [u8])>, Option<Held<'a>>);

/// The newest state, by key.
pub(super) const CURRENT: TableDefinition<'static, &str, Held> = TableDefinition::new("current");

/// History, by revision and by the change's place in its commit. It holds whole commits without a gap, from
/// the one after `COMPACTED`. The content of a key at a past revision is the `before` of its first change
/// since.
/// `COMPACTED` on. What a key held at a past revision is the `before` of its first change since.
pub(super) const HISTORY: TableDefinition<'static, (i64, u32), Change> = TableDefinition::new("history");

/// Numbers, by name.
pub(super) const NUMBERS: TableDefinition<'static, &str, i64> = TableDefinition::new("numbers");

/// The revision of the last commit.
pub(super) const REVISION: &str = "revision";

/// The oldest revision that can be read.
pub(super) const COMPACTED: &str = "compacted";

/// The revision of an empty store, as in etcd: the revision 0 stays free for "any".
pub(super) const FIRST_REVISION: i64 = 1;

pub(super) fn key_value(key: &str, (create_revision, mod_revision, value): Held<'_>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Bytes::copy_from_slice(value), create_revision, mod_revision }
}

/// The event that a change makes; none for a record that says that nothing became nothing.
pub(super) fn event(revision: i64, (_, key, after, before): Change<'_>) -> Option<WatchEvent> {
    let previous = before.map(|before| key_value(key, before));
    match after {
        Some((create_revision, value)) => {
            Some(WatchEvent::Put { current: key_value(key, (create_revision, revision, value)), previous })
        }
        None => previous.map(|previous| WatchEvent::Delete { revision, previous }),
    }
}
