//! The Events that were created, and the number of notices that each stands for.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::record::{Record, RecordKey};

/// Minimum time between two writes of one Event.
pub(super) const PACE: Duration = Duration::from_secs(30);
/// Time after its last notice at which a series ends, as in client-go.
const IDLE: Duration = Duration::from_mins(6);
/// Maximum number of different notes of one reason on one object that become Events of their own. Later notes
/// count as the last.
const NOTES: usize = 10;
/// Maximum number of series that are remembered: about 20 MiB of notes.
const REMEMBERED: usize = 20_000;
/// Maximum number of them for one namespace. The one whose last notice is oldest makes room for another.
const OF_NAMESPACE: usize = REMEMBERED / 8;
/// Maximum number of counts that are written in a row, so that new Events are not held up.
const AT_ONCE: usize = 20;

/// One Event that was created.
#[derive(Debug)]
struct Series {
    note: String,
    /// Name and namespace of the Event.
    event: EventName,
    /// Number of notices so far.
    count: i32,
    last: Instant,
    written: Instant,
    /// True when the Event does not show the count yet.
    due: bool,
}

/// Name and namespace of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A count that an Event is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeriesUpdate {
    pub(super) event: EventName,
    pub(super) count: i32,
}

/// The series that are in progress.
#[derive(Debug, Default)]
pub(super) struct AllSeries {
    by_key: HashMap<RecordKey, Vec<Series>>,
    /// Number of series of each namespace.
    namespaces: HashMap<String, usize>,
}

impl AllSeries {
    /// Counts a record in the series that it belongs to. Returns false when it needs an Event of its own.
    pub(super) fn count(&mut self, record: &Record, now: Instant) -> bool {
        let Some(all) = self.by_key.get_mut(&record.key()) else {
            return false;
        };
        let full = all.len() >= NOTES;
        let equal = all.iter().position(|series| series.note == record.notice.note);
        let Some(at) = equal.or_else(|| full.then(|| all.len() - 1)) else {
            return false;
        };
        if let Some(series) = all.get_mut(at) {
            series.count = series.count.saturating_add(record.count);
            series.last = now;
            series.due = true;
        }
        true
    }

    /// Remembers the Event that was created for a record.
    pub(super) fn created(&mut self, record: &Record, event: EventName, now: Instant) {
        let of_namespace = self.namespaces.get(&event.namespace).copied().unwrap_or_default();
        if of_namespace >= OF_NAMESPACE {
            self.forget_oldest(Some(&event.namespace));
        } else if self.namespaces.values().sum::<usize>() >= REMEMBERED {
            self.forget_oldest(None);
        }
        *self.namespaces.entry(event.namespace.clone()).or_default() += 1;
        let series = Series {
            note: record.notice.note.clone(),
            event,
            count: record.count,
            last: now,
            written: now,
            due: record.count > 1,
        };
        self.by_key.entry(record.key()).or_default().push(series);
    }

    /// Returns the counts that are to be written now, and forgets the series that ended.
    pub(super) fn due(&mut self, now: Instant) -> Vec<SeriesUpdate> {
        let mut updates = Vec::new();
        let due = |series: &&mut Series| series.due && now.duration_since(series.written) >= PACE;
        for series in self.by_key.values_mut().flatten().filter(due).take(AT_ONCE) {
            series.written = now;
            series.due = false;
            updates.push(SeriesUpdate { event: series.event.clone(), count: series.count });
        }
        self.retain(|series| series.due || now.duration_since(series.last) < IDLE);
        updates
    }

    /// Forgets the series of an Event that the API no longer has, so that the next notice creates another.
    pub(super) fn forget(&mut self, event: &EventName) {
        self.retain(|series| series.event != *event);
    }

    /// Forgets the series whose last notice is oldest, of one namespace or of all.
    fn forget_oldest(&mut self, namespace: Option<&str>) {
        let all = self.by_key.values().flatten();
        let of_namespace = all.filter(|series| namespace.is_none_or(|name| series.event.namespace == name));
        if let Some(oldest) = of_namespace.min_by_key(|series| series.last) {
            let event = oldest.event.clone();
            self.forget(&event);
        }
    }

    fn retain(&mut self, keep: impl Fn(&Series) -> bool) {
        self.namespaces.clear();
        self.by_key.retain(|_, all| {
            all.retain(&keep);
            for series in all.iter() {
                *self.namespaces.entry(series.event.namespace.clone()).or_default() += 1;
            }
            !all.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::{super::Notice, *};

    fn record(note: &str) -> Record {
        Record::new(Notice::progress("Delayed", note.to_owned()), ObjectReference::default(), None)
    }

    fn event(name: &str) -> EventName {
        EventName { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_series_shows_every_notice_and_is_written_at_a_bounded_pace() {
        let (mut all, mut now) = (AllSeries::default(), Instant::now());
        assert!(!all.count(&record("copying"), now));
        all.created(&record("copying"), event("a"), now);
        let mut writes = Vec::new();
        for _ in 0..224 {
            now += Duration::from_secs(8);
            assert!(all.count(&record("copying"), now));
            writes.extend(all.due(now).into_iter().map(|update| update.count));
        }
        writes.extend(all.due(now + PACE).into_iter().map(|update| update.count));
        assert_eq!(writes.last(), Some(&225));
        assert!(writes.len() <= 60, "{} writes in 30 minutes", writes.len());
        assert!(all.due(now + IDLE).is_empty() && all.by_key.is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn notes_that_differ_each_time_are_counted_in_the_last_series() {
        let (mut all, now) = (AllSeries::default(), Instant::now());
        let mut events = 0;
        for percent in 0..100 {
            let record = record(&format!("{percent} % copied"));
            if !all.count(&record, now) {
                all.created(&record, event(&percent.to_string()), now);
                events += 1;
            }
        }
        assert_eq!(events, NOTES);
        assert_eq!(all.due(now + PACE), [SeriesUpdate { event: event("9"), count: 91 }]);
    }

    #[tokio::test(start_paused = true)]
    async fn rule_8_a_namespace_with_many_events_leaves_room_for_those_of_others() {
        let (mut all, mut now) = (AllSeries::default(), Instant::now());
        let of = |uid: usize| {
            let regarding = ObjectReference { uid: Some(uid.to_string()), ..ObjectReference::default() };
            Record::new(Notice::progress("Delayed", "copying".to_owned()), regarding, None)
        };
        let other = EventName { namespace: "other".to_owned(), name: "a".to_owned() };
        all.created(&record("copying"), other, now);
        for at in 0..=OF_NAMESPACE {
            now += Duration::from_millis(1);
            all.created(&of(at), event(&at.to_string()), now);
        }
        assert!(all.count(&record("copying"), now), "another namespace's");
        assert!(!all.count(&of(0), now), "the oldest made room");
        assert!(all.count(&of(1), now) && all.count(&of(OF_NAMESPACE), now));
        assert_eq!(all.namespaces.values().sum::<usize>(), OF_NAMESPACE + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_series_ends_after_a_while_without_notices() {
        let (mut all, now) = (AllSeries::default(), Instant::now());
        all.created(&record("copying"), event("a"), now);
        all.due(now + IDLE);
        assert!(!all.count(&record("copying"), now + IDLE));
    }
}
