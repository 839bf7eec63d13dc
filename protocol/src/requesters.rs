//! The requesters' entries, and the edits that rule 3 allows. Ownership is in `ownership`, the fence in `fence`, and
//! the record of the users behind the entries in `recorded`.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DeadlineAction, Evacuation, EvacuationSpec, EvacuationStatus, MAX_REQUESTERS, Requester, RequesterKey,
};

use crate::{
    EditError, cancel, derive_policy,
    fence::check_fence,
    finished_reason, has_lapsed, is_finished,
    ownership::{check_owner, check_retention},
    policy::policy_at,
    recorded::record_requesters,
    window::forget_changed,
};

/// The caller of an edit, and the force of the request.
#[derive(Clone, Copy, Debug)]
pub struct Editor<'a> {
    /// The user's name.
    pub user: &'a str,
    /// True when the user holds the verb `override`. Pass false first, and ask for the verb only after an error that
    /// [it lifts](EditError::is_forbidden).
    pub may_override: bool,
    /// True when the request names the resourceVersion that the caller has read.
    pub guarded: bool,
}

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

/// Checks rules 3 and 8 and the fence, for an update of the spec by `editor` at `now`. Both specs are defaulted, and
/// every entry has its owner.
///
/// # Errors
///
/// Those that [`EditError::is_forbidden`] names come first: the verb `override` lifts them, and no other.
pub fn check_requester_edit<'a>(
    old: &'a Evacuation,
    new: &'a EvacuationSpec,
    editor: Editor<'_>,
    now: DateTime<Utc>,
) -> Result<RequesterEdit<'a>, EditError> {
    let default = EvacuationStatus::default();
    let status = old.status.as_ref().unwrap_or(&default);
    let edit = compare(&old.spec.requesters, &new.requesters);
    check_retention(old, new, editor)?;
    if edit.is_empty() {
        return Ok(edit);
    }
    if let Some(reason) = finished_reason(status) {
        return Err(EditError::Finished { reason: reason.to_owned() });
    }
    if !editor.may_override {
        check_owner(edit.written().chain(edit.removed.iter().copied()), editor.user)?;
        check_room(&old.spec.requesters, &new.requesters)?;
    }
    if !editor.guarded && !edit.removed.is_empty() {
        let requesters = edit.removed.iter().map(ToString::to_string).collect();
        return Err(EditError::Unguarded { requesters });
    }
    if let Some(key) = edit.removed.iter().chain(&edit.receding).next() {
        check_fence(status, Some(*key))?;
    }
    // By `now`: the stored policy may not record yet that a deadline was reached.
    let policy = policy_at(&old.spec.requesters, status, now);
    if let Some(key) = edit.changed.iter().find(|key| has_lapsed(&policy, **key)) {
        return Err(EditError::Lapsed { requester: key.to_string() });
    }
    Ok(edit)
}

/// Checks rules 3 and 8 for the entries of a new Evacuation. Every entry has its owner.
///
/// # Errors
///
/// Only those that the verb `override` lifts.
pub fn check_creation(requesters: &[Requester], user: &str) -> Result<(), EditError> {
    check_owner(requesters.iter().map(Requester::key), user)?;
    check_room(&[], requesters)
}

/// The places above the common maximum are for holders of the verb `override`, so that nobody is excluded by many.
fn check_room(old: &[Requester], new: &[Requester]) -> Result<(), EditError> {
    if new.len() > MAX_REQUESTERS.max(old.len()) { Err(EditError::Full) } else { Ok(()) }
}

fn compare<'a>(old: &'a [Requester], new: &'a [Requester]) -> RequesterEdit<'a> {
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

/// Whether an entry sleeps, or gives up, at a time at which it would have asked before.
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

/// Returns the status after an edit that [`check_requester_edit`] allowed. Recorded requesters and policy follow the
/// entries; when the last entry left, the Evacuation is canceled.
pub fn apply_requester_edit(
    old: &Evacuation,
    new: &EvacuationSpec,
    edit: &RequesterEdit<'_>,
    user: &str,
    groups: &[String],
    now: DateTime<Utc>,
) -> EvacuationStatus {
    let mut status = old.status.clone().unwrap_or_default();
    let next_generation = old.metadata.generation.map(|generation| generation + 1);
    if edit.is_empty() {
        // After the end the controller writes no more, and so the server observes what changes.
        if *new != old.spec && is_finished(&status) {
            status.observed_generation = next_generation;
        }
        return status;
    }
    status.requesters = record_requesters(&status.requesters, edit, &new.requesters, user, groups, now);
    if new.requesters.is_empty() {
        // The policy stays: it is the last one of the entries that left.
        status.observed_generation = next_generation;
        return cancel(&status, "the last requester left", now);
    }
    // First by the entries as they were: a deadline that has passed was reached, and an edit does not undo
    // it.
    let mut before = policy_at(&old.spec.requesters, &status, now);
    forget_changed(&mut before, &old.spec.requesters, &new.requesters);
    status.policy = Some(derive_policy(&new.requesters, Some(&before), now));
    status
}

/// Returns the status of a new Evacuation that `user` creates, before
/// [`fix_responders`](crate::fix_responders).
pub fn begin(spec: &EvacuationSpec, user: &str, groups: &[String], now: DateTime<Utc>) -> EvacuationStatus {
    let added = RequesterEdit::creation(&spec.requesters);
    EvacuationStatus {
        requesters: record_requesters(&[], &added, &spec.requesters, user, groups, now),
        policy: Some(derive_policy(&spec.requesters, None, now)),
        // Metadata of a new object count one generation.
        observed_generation: Some(1),
        ..EvacuationStatus::default()
    }
}

#[cfg(test)]
mod tests;
