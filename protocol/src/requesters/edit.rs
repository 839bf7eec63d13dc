//! Comparison of the entries before and after an edit.

use evacuation_api::{DeadlineAction, Requester, RequesterKey};

/// Effects of an edit of the requesters, by the keys of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequesterEdit<'a> {
    /// New entries.
    pub added: Vec<RequesterKey<'a>>,
    /// Entries with another content than before.
    pub changed: Vec<RequesterKey<'a>>,
    /// Entries that are gone.
    pub removed: Vec<RequesterKey<'a>>,
    /// Those of `changed` that ask for more than before. Doubtful cases count.
    pub hardened: Vec<RequesterKey<'a>>,
    /// Those of `changed` that sleep or give up sooner than before: the edit withdraws them, now or later.
    pub receding: Vec<RequesterKey<'a>>,
    /// Those of `added` and `hardened` whose deadline deletes the pod: the caller needs `delete pods`.
    pub deleting: Vec<RequesterKey<'a>>,
}

impl<'a> RequesterEdit<'a> {
    /// Returns the edit that a creation is: every entry is new.
    pub fn creation(requesters: &'a [Requester]) -> Self {
        compare(&[], requesters)
    }

    /// Returns true when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Returns true when the caller needs `create pods/eviction` on the target (rule 5).
    pub fn needs_eviction_right(&self) -> bool {
        !self.added.is_empty() || !self.hardened.is_empty()
    }

    /// Returns true when the caller needs `delete pods` on the target (rule 5).
    pub fn needs_deletion_right(&self) -> bool {
        !self.deleting.is_empty()
    }

    /// Returns the keys of the entries that the caller has written.
    pub fn written(&self) -> impl Iterator<Item = RequesterKey<'a>> {
        self.added.iter().chain(&self.changed).copied()
    }
}

pub(super) fn compare<'a>(old: &'a [Requester], new: &'a [Requester]) -> RequesterEdit<'a> {
    let mut edit = RequesterEdit::default();
    for entry in new {
        let key = entry.key();
        let before = old.iter().find(|before| before.key() == key);
        let asks_more = before.is_none_or(|before| hardens(before, entry));
        match before {
            None => edit.added.push(key),
            Some(before) if before != entry => {
                edit.changed.push(key);
                if recedes(before, entry) {
                    edit.receding.push(key);
                }
                if asks_more {
                    edit.hardened.push(key);
                }
            }
            Some(_) => continue,
        }
        if asks_more && deletes(entry) {
            edit.deleting.push(key);
        }
    }
    let left = |before: &&Requester| !new.iter().any(|entry| entry.key() == before.key());
    edit.removed = old.iter().filter(left).map(Requester::key).collect();
    edit
}

/// Returns true when an entry sleeps, or gives up, at a time at which it would have asked before.
fn recedes(old: &Requester, new: &Requester) -> bool {
    let sleeps = new.window.is_some() && new.window != old.window;
    let gives_up = |entry: &Requester| {
        entry.deadline.filter(|_| entry.at_deadline.unwrap_or_default() == DeadlineAction::GiveUp)
    };
    let sooner = gives_up(new).is_some_and(|end| gives_up(old).is_none_or(|before| end < before));
    sleeps || sooner
}

fn deletes(entry: &Requester) -> bool {
    entry.deadline.is_some() && entry.at_deadline == Some(DeadlineAction::Delete)
}

/// Returns true when an entry asks for more than before. A change that depends on the pod counts as more.
fn hardens(old: &Requester, new: &Requester) -> bool {
    let harder_policy = new.on_refusal.unwrap_or_default() > old.on_refusal.unwrap_or_default();
    let gives_up = |entry: &Requester| entry.at_deadline.unwrap_or_default() == DeadlineAction::GiveUp;
    let harder_deadline = match (old.deadline, new.deadline) {
        // An entry that gives up later, or never, wants the pod moved for longer.
        (Some(_), None) => gives_up(old),
        (Some(before), Some(after)) if gives_up(old) => after > before || !gives_up(new),
        (None, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => {
            after < before || new.at_deadline.unwrap_or_default() > old.at_deadline.unwrap_or_default()
        }
    };
    let harder_grace = match (old.grace_period_seconds, new.grace_period_seconds) {
        (Some(before), Some(after)) => after < before,
        // Without one the pod's own counts, which may be shorter or longer.
        (before, after) => before != after,
    };
    // Without its window an entry counts at once, and with another one perhaps sooner.
    let harder_window = old.window.is_some() && new.window != old.window;
    harder_policy || harder_deadline || harder_grace || harder_window
}
