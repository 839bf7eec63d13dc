//! The record of the users behind the entries, and behind those that left.

use chrono::{DateTime, Utc};
use evacuation_api::{RecordedRequester, Requester};

use super::RequesterEdit;
use crate::time::stamp;

/// Number of entries that left and stay recorded: the newest.
const MAX_DEPARTED: usize = 16;
/// Number of those that one owner can have.
const MAX_DEPARTED_PER_OWNER: usize = MAX_DEPARTED / 4;

/// Returns the user behind each entry after the edit, then the entries that left, newest last.
///
/// A changed entry keeps its maker and the time at which it was made, also when another user changed it by
/// `override`. An entry that left stays
/// with the time at which it left, until its owner joins again under this name.
pub(super) fn record_requesters(
    recorded: &[RecordedRequester],
    edit: &RequesterEdit<'_>,
    requesters: &[Requester],
    user: &str,
    groups: &[String],
    now: DateTime<Utc>,
) -> Vec<RecordedRequester> {
    let record = |requester: &Requester| {
        let key = requester.key();
        let live = |known: &&RecordedRequester| known.key() == key && known.left_time.is_none();
        match recorded.iter().find(live) {
            Some(before) if edit.changed.contains(&key) => {
                RecordedRequester { time: stamp(now), ..before.clone() }
            }
            Some(before) => before.clone(),
            None => RecordedRequester {
                owner: requester.owner.clone(),
                name: requester.name.clone(),
                user: user.to_owned(),
                groups: groups.to_vec(),
                owner_groups: Vec::new(),
                time: stamp(now),
                joined_time: Some(stamp(now)),
                left_time: None,
            },
        }
    };
    let mut after: Vec<_> = requesters.iter().map(record).collect();
    let gone = |known: &&RecordedRequester| !requesters.iter().any(|entry| entry.key() == known.key());
    let leave = |known: &RecordedRequester| {
        let left_time = known.left_time.or(Some(stamp(now)));
        RecordedRequester { left_time, ..known.clone() }
    };
    after.extend(newest(recorded.iter().filter(gone).map(leave).collect()));
    after
}

fn newest(mut departed: Vec<RecordedRequester>) -> Vec<RecordedRequester> {
    departed.sort_by_key(|known| std::cmp::Reverse(known.left_time));
    let mut kept: Vec<RecordedRequester> = Vec::new();
    for known in departed {
        let of_owner = kept.iter().filter(|other| other.owner == known.owner).count();
        if kept.len() < MAX_DEPARTED && of_owner < MAX_DEPARTED_PER_OWNER {
            kept.push(known);
        }
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, requester_of};

    fn step(recorded: &[RecordedRequester], entries: &[Requester], seconds: i64) -> Vec<RecordedRequester> {
        let edit = RequesterEdit::creation(&[]);
        record_requesters(recorded, &edit, entries, "alice", &[], at(seconds))
    }

    #[test]
    fn an_entry_that_left_stays_recorded_until_its_owner_joins_again() {
        let (ann, bob) = (requester_of("ann", "a.b/c"), requester_of("bob", "a.b/c"));
        let both = step(&[], &[ann.clone(), bob.clone()], 0);
        let left = step(&both, std::slice::from_ref(&bob), 5);
        let times = |all: &[RecordedRequester]| {
            all.iter().map(|r| (r.owner.clone(), r.left_time.map(|time| time.0))).collect::<Vec<_>>()
        };
        assert_eq!(times(&left), [("bob".to_owned(), None), ("ann".to_owned(), Some(at(5)))]);
        assert_eq!(times(&step(&left, std::slice::from_ref(&bob), 9)), times(&left), "it left once");
        let back = step(&left, &[bob, ann], 10);
        assert_eq!(times(&back), [("bob".to_owned(), None), ("ann".to_owned(), None)]);
        assert_eq!(back[1].time.0, at(10));
    }

    #[test]
    fn a_renewed_entry_keeps_the_time_at_which_it_was_made() {
        let ann = requester_of("ann", "a.b/c");
        let made = step(&[], std::slice::from_ref(&ann), 0);
        let edit = RequesterEdit { changed: vec![ann.key()], ..RequesterEdit::default() };
        let renewed = record_requesters(&made, &edit, std::slice::from_ref(&ann), "ann", &[], at(9));
        assert_eq!((renewed[0].time.0, renewed[0].joined().0), (at(9), at(0)));
        let again = step(&step(&renewed, &[], 10), std::slice::from_ref(&ann), 11);
        assert_eq!(again[0].joined().0, at(11), "one that left and came back is new");
    }

    #[test]
    fn the_record_of_those_that_left_is_bounded_and_one_owner_cannot_fill_it() {
        let bob = [requester_of("bob", "a.b/c")];
        let mut recorded = step(&step(&[], &bob, 0), &[], 1);
        for seconds in 2..100 {
            let entry = [requester_of("mallory", &format!("a.b/{seconds}"))];
            recorded = step(&step(&recorded, &entry, seconds), &[], seconds);
        }
        assert_eq!(recorded.len(), 1 + MAX_DEPARTED_PER_OWNER);
        assert!(recorded.iter().any(|known| known.owner == "bob"));
        for owner in 0..100 {
            let entry = [requester_of(&format!("o{owner}"), "a.b/c")];
            recorded = step(&step(&recorded, &entry, 200 + owner), &[], 200 + owner);
        }
        assert_eq!(recorded.len(), MAX_DEPARTED);
        assert_eq!(recorded.last().map(|known| known.owner.as_str()), Some("o99"));
    }
}
