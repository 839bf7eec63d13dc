//! The records that wait for the publisher, without I/O.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::record::{Record, RecordKey};

/// Maximum number of records that wait.
pub(super) const CAPACITY: usize = 4096;
/// Maximum number of records of one namespace that wait.
pub(super) const NAMESPACE_SHARE: usize = CAPACITY / 8;

/// Time for which a record waits at least, so that the calls that move the pod come before those that tell of
/// it.
pub(super) const HOLD: Duration = Duration::from_secs(1);

/// The position of a record: records that matter come first, then those that came first.
type Position = (bool, u64);

/// A bounded queue of records.
///
/// # Guarantees
///
/// Namespaces take turns: a record that matters waits for those of its namespace before it, and meanwhile for
/// as many of each other namespace. Progress waits for all that matters, by turns as well, and is dropped
/// first. A record equal to one that waits is added to its count. A record that finds no room displaces
/// progress of its namespace, or of the whole queue if its namespace has not used its share. An end takes the
/// place of the progress of its object.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Number of records that were added, and of turns.
    next: u64,
    /// Number of records that wait.
    count: usize,
    shares: HashMap<String, Share>,
    /// Positions of the records that wait, by key, oldest first.
    by_key: HashMap<RecordKey, VecDeque<Position>>,
}

/// The records of one namespace that wait.
#[derive(Debug)]
struct Share {
    /// The last turn. The lowest comes first.
    turn: u64,
    /// The records, each with the moment from which it can be published.
    records: BTreeMap<Position, (Instant, Record)>,
}

impl Share {
    /// Returns the oldest record of those that matter, and the oldest progress, each with its moment.
    fn heads(&self) -> impl Iterator<Item = (Position, Instant)> {
        [(false, 0), (true, 0)].into_iter().filter_map(|from| {
            let (position, (ready, _)) = self.records.range(from..(from.0, u64::MAX)).next()?;
            Some((*position, *ready))
        })
    }

    /// Returns the position of the newest progress.
    fn newest_progress(&self) -> Option<Position> {
        self.records.range((true, 0)..).next_back().map(|(position, _)| *position)
    }
}

impl Backlog {
    /// Adds a record at `now`. Returns false when it, or the record that it displaced, was dropped.
    pub(super) fn add(&mut self, record: Record, now: Instant) -> bool {
        let (key, namespace) = (record.key(), record.namespace().to_owned());
        let last = self.by_key.get(&key).and_then(|positions| positions.back()).copied();
        let share = self.shares.get_mut(&namespace);
        if let Some((_, waiting)) = share.zip(last).and_then(|(share, last)| share.records.get_mut(&last))
            && waiting.notice == record.notice
        {
            waiting.count = waiting.count.saturating_add(record.count);
            return true;
        }
        if record.notice.end {
            self.remove_progress_of(&namespace, record.regarding.uid.as_deref());
        }
        let within_share =
            self.shares.get(&namespace).is_none_or(|share| share.records.len() < NAMESPACE_SHARE);
        let mut displaced = false;
        if !within_share || self.count >= CAPACITY {
            let victim = self.newest_progress((!within_share).then_some(namespace.as_str()));
            let Some((of, position)) = victim.filter(|_| !record.notice.progress) else {
                return false;
            };
            self.remove(&of, position);
            displaced = true;
        }
        let number = self.number();
        let position = (record.notice.progress, number);
        self.count += 1;
        self.by_key.entry(key).or_default().push_back(position);
        let share = self.shares.entry(namespace);
        let share = share.or_insert_with(|| Share { turn: number, records: BTreeMap::new() });
        share.records.insert(position, (now + HOLD, record));
        !displaced
    }

    /// Takes the record that comes first of those that can be published at `now`. The error is the moment
    /// from which the next one can, if any waits.
    pub(super) fn take(&mut self, now: Instant) -> Result<Record, Option<Instant>> {
        let heads = self.shares.iter().flat_map(|(namespace, share)| {
            share.heads().map(move |(position, ready)| (position, ready, share.turn, namespace))
        });
        let heads: Vec<_> = heads.collect();
        let soonest = heads.iter().map(|(_, ready, ..)| *ready).min();
        let ready = heads.into_iter().filter(|(_, ready, ..)| *ready <= now);
        let first = ready.min_by_key(|(position, _, turn, _)| (position.0, *turn, position.1));
        let Some((position, _, _, namespace)) = first else { return Err(soonest) };
        let namespace = namespace.clone();
        let turn = self.number();
        let taken = self.remove(&namespace, position);
        if let Some(share) = self.shares.get_mut(&namespace) {
            share.turn = turn;
        }
        taken.ok_or(soonest)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the newest progress, of one namespace if it is named, and its namespace.
    fn newest_progress(&self, namespace: Option<&str>) -> Option<(String, Position)> {
        let shares = self.shares.iter().filter(|(known, _)| namespace.is_none_or(|name| name == *known));
        let newest = shares.filter_map(|(known, share)| Some((share.newest_progress()?, known)));
        newest.max().map(|(position, known)| (known.clone(), position))
    }

    fn remove_progress_of(&mut self, namespace: &str, uid: Option<&str>) {
        let Some((uid, share)) = uid.zip(self.shares.get(namespace)) else { return };
        let progress = share.records.range((true, 0)..);
        let implied = progress.filter(|(_, (_, record))| record.regarding.uid.as_deref() == Some(uid));
        let implied: Vec<Position> = implied.map(|(position, _)| *position).collect();
        for position in implied {
            self.remove(namespace, position);
        }
    }

    fn remove(&mut self, namespace: &str, position: Position) -> Option<Record> {
        let share = self.shares.get_mut(namespace)?;
        let (_, record) = share.records.remove(&position)?;
        if share.records.is_empty() {
            self.shares.remove(namespace);
        }
        self.count -= 1;
        let key = record.key();
        if let Some(positions) = self.by_key.get_mut(&key) {
            positions.retain(|known| *known != position);
            if positions.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{super::Notice, *};

    fn record(namespace: &str, object: usize, notice: Notice) -> Record {
        let regarding = ObjectReference {
            namespace: Some(namespace.to_owned()),
            uid: Some(format!("{namespace}-{object}")),
            ..ObjectReference::default()
        };
        Record::new(notice, regarding, None)
    }

    fn progress() -> Notice {
        Notice::progress("Delayed", "a delay".to_owned())
    }

    fn ending() -> Notice {
        Notice::normal("Evicted", "the pod is gone".to_owned())
    }

    fn add(backlog: &mut Backlog, record: Record) -> bool {
        backlog.add(record, Instant::now())
    }

    fn taken(backlog: &mut Backlog) -> Vec<Record> {
        std::iter::from_fn(|| backlog.take(Instant::now() + HOLD).ok()).collect()
    }

    #[test]
    fn a_record_waits_for_a_second_whatever_came_before_it() {
        let (mut backlog, start) = (Backlog::default(), Instant::now());
        assert_eq!(backlog.take(start), Err(None));
        backlog.add(record("ns", 1, progress()), start);
        backlog.add(record("ns", 1, ending()), start + HOLD / 2);
        assert_eq!(backlog.take(start), Err(Some(start + HOLD)));
        assert_eq!(backlog.take(start + HOLD).map(|record| record.notice), Ok(progress()));
        assert_eq!(backlog.take(start + HOLD), Err(Some(start + HOLD + HOLD / 2)));
        assert_eq!(backlog.take(start + HOLD * 2).map(|record| record.notice), Ok(ending()));
    }

    #[test]
    fn equal_records_wait_as_one_with_a_count() {
        let mut backlog = Backlog::default();
        for _ in 0..100 {
            assert!(add(&mut backlog, record("ns", 1, progress())));
        }
        add(&mut backlog, record("ns", 1, Notice::progress("Delayed", "another".to_owned())));
        add(&mut backlog, record("ns", 2, progress()));
        let counts: Vec<i32> = taken(&mut backlog).iter().map(|record| record.count).collect();
        assert_eq!(counts, [100, 1, 1]);
    }

    #[test]
    fn an_end_takes_the_place_of_the_progress_before_it_and_of_nothing_else() {
        let mut backlog = Backlog::default();
        let warning = Notice::warning("Silent", "a silence".to_owned());
        for object in [1, 2] {
            add(&mut backlog, record("ns", object, progress()));
            add(&mut backlog, record("ns", object, warning.clone()));
        }
        assert!(add(&mut backlog, record("ns", 1, ending().ending())));
        let left = taken(&mut backlog).into_iter().map(|record| (record.regarding.uid, record.notice));
        let uid = |object: usize| Some(format!("ns-{object}"));
        let expected =
            [(uid(1), warning.clone()), (uid(2), warning), (uid(1), ending().ending()), (uid(2), progress())];
        assert_eq!(left.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn warnings_and_ends_are_taken_before_progress_and_are_not_lost_for_it() {
        let mut backlog = Backlog::default();
        // Eight namespaces fill the queue with progress.
        for object in 0..CAPACITY {
            assert!(add(&mut backlog, record(&format!("ns-{}", object % 8), object, progress())));
        }
        assert!(!add(&mut backlog, record("other", 1, progress())), "no room is left for progress");
        for object in 0..100 {
            assert!(
                !add(&mut backlog, record("other", object, ending())),
                "it displaces progress, which is counted"
            );
        }
        let taken = taken(&mut backlog);
        assert_eq!(taken.len(), CAPACITY);
        assert!(taken[..100].iter().all(|record| record.notice == ending()));
        assert!(taken[100..].iter().all(|record| record.notice == progress()));
        assert!(backlog.by_key.is_empty() && backlog.shares.is_empty(), "nothing is left behind");
    }

    #[test]
    fn a_namespace_fills_its_share_and_no_more() {
        let mut backlog = Backlog::default();
        let accepted =
            (0..2 * NAMESPACE_SHARE).filter(|n| add(&mut backlog, record("noisy", *n, ending()))).count();
        assert_eq!(accepted, NAMESPACE_SHARE);
        assert!(add(&mut backlog, record("quiet", 1, progress())));
    }

    /// # Attack
    ///
    /// - Attacker: a tenant of one namespace
    /// - Act: causes as many Events as its share of the queue takes, while the API takes one in half a second
    /// - Promise: 8
    #[test]
    fn the_flood_of_a_namespace_holds_the_record_of_another_up_by_one() {
        let mut backlog = Backlog::default();
        for object in 0..NAMESPACE_SHARE {
            assert!(add(&mut backlog, record("noisy", object, ending())));
        }
        let namespace = |backlog: &mut Backlog| {
            let taken = backlog.take(Instant::now() + HOLD).unwrap();
            taken.namespace().to_owned()
        };
        assert_eq!(namespace(&mut backlog), "noisy");
        for quiet in ["quiet-1", "quiet-2"] {
            assert!(add(&mut backlog, record(quiet, 1, ending())));
            assert!(add(&mut backlog, record(quiet, 2, ending())));
        }
        let order: Vec<_> = (0..6).map(|_| namespace(&mut backlog)).collect();
        assert_eq!(order, ["noisy", "quiet-1", "quiet-2", "noisy", "quiet-1", "quiet-2"]);
        assert_eq!(namespace(&mut backlog), "noisy");
    }
}
