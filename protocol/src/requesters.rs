//! Requesters, and the edits of their entries: rule 3. `ownership` checks the owner of an entry, and `fence`
//! the eviction.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DeadlineAction, Evacuation, EvacuationSpec, EvacuationStatus, RecordedRequester, Requester,
};

use crate::{
    EditError, cancel, condition::finished_reason, derive_policy, fence::check_fence, has_lapsed,
    ownership::check_owner, policy::policy_at, time::stamp, window::forget_changed,
};

/// The changes of an edit of the requesters, by the names of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequesterEdit {
    /// Entries that are new.
    pub added: Vec<String>,
    /// Entries with another content than before.
    pub changed: Vec<String>,
    /// Entries that are gone.
    pub removed: Vec<String>,
    /// Those of `changed` that ask for more than before. Doubtful cases count.
    pub hardened: Vec<String>,
    /// Those of `changed` that wait for a window that they did not wait for before.
    pub rescheduled: Vec<String>,
    /// Those of `added` and `hardened` whose deadline deletes the pod: the caller needs `delete pods`.
    pub deleting: Vec<String>,
}

impl RequesterEdit {
    /// The edit that a creation is: every entry is new.
    pub fn creation(requesters: &[Requester]) -> Self {
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
}

/// Checks rule 3 and the fence, for an update of the spec by `user` at `now`. Both specs are defaulted.
///
/// Call it with `may_override` false first; only [`EditError::NotYours`] is worth asking for the verb
/// `override`.
pub fn check_requester_edit(
    old: &Evacuation,
    new: &EvacuationSpec,
    user: &str,
    may_override: bool,
    now: DateTime<Utc>,
) -> Result<RequesterEdit, EditError> {
    let default = EvacuationStatus::default();
    let status = old.status.as_ref().unwrap_or(&default);
    let edit = compare(&old.spec.requesters, &new.requesters);
    if edit.is_empty() {
        return Ok(edit);
    }
    if let Some(reason) = finished_reason(status) {
        return Err(EditError::Finished { reason: reason.to_owned() });
    }
    let touched = || edit.changed.iter().chain(&edit.removed);
    if !may_override {
        check_owner(status, touched(), user)?;
    }
    if let Some(requester) = edit.removed.iter().chain(&edit.rescheduled).next() {
        check_fence(status, requester)?;
    }
    // By now, for a deadline may have been reached that nobody has recorded yet.
    let policy = policy_at(&old.spec.requesters, status, now);
    if let Some(requester) = edit.changed.iter().find(|name| has_lapsed(&policy, name)) {
        return Err(EditError::Lapsed { requester: requester.clone() });
    }
    Ok(edit)
}

fn compare(old: &[Requester], new: &[Requester]) -> RequesterEdit {
    let mut edit = RequesterEdit::default();
    for entry in new {
        let name = entry.name.clone();
        let before = old.iter().find(|o| o.name == name);
        let asks_more = before.is_none_or(|before| hardens(before, entry));
        match before {
            None => edit.added.push(name.clone()),
            Some(before) if before != entry => {
                edit.changed.push(name.clone());
                if entry.window.is_some() && entry.window != before.window {
                    edit.rescheduled.push(name.clone());
                }
                if asks_more {
                    edit.hardened.push(name.clone());
                }
            }
            Some(_) => continue,
        }
        if asks_more && deletes(entry) {
            edit.deleting.push(name);
        }
    }
    edit.removed =
        old.iter().filter(|o| !new.iter().any(|n| n.name == o.name)).map(|o| o.name.clone()).collect();
    edit
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

/// Returns the recorded requesters after the edit. A changed entry keeps its maker, also when another user
/// changed it by `override`, so that the maker can still withdraw it.
pub fn record_requesters(
    recorded: &[RecordedRequester],
    edit: &RequesterEdit,
    requesters: &[Requester],
    user: &str,
    groups: &[String],
    now: DateTime<Utc>,
) -> Vec<RecordedRequester> {
    let record = |requester: &Requester| {
        let name = &requester.name;
        match recorded.iter().find(|r| r.name == *name) {
            Some(before) if edit.changed.contains(name) => {
                RecordedRequester { time: stamp(now), ..before.clone() }
            }
            Some(before) => before.clone(),
            None => RecordedRequester {
                name: name.clone(),
                user: user.to_owned(),
                groups: groups.to_vec(),
                time: stamp(now),
            },
        }
    };
    requesters.iter().map(record).collect()
}

/// Returns the status after an edit that [`check_requester_edit`] allowed, with new recorded requesters and a
/// new policy. When the last entry left, the Evacuation is canceled.
pub fn apply_requester_edit(
    old: &Evacuation,
    new: &EvacuationSpec,
    edit: &RequesterEdit,
    user: &str,
    groups: &[String],
    now: DateTime<Utc>,
) -> EvacuationStatus {
    let mut status = old.status.clone().unwrap_or_default();
    if edit.is_empty() {
        return status;
    }
    status.requesters = record_requesters(&status.requesters, edit, &new.requesters, user, groups, now);
    if new.requesters.is_empty() {
        // The policy stays as the last word of those who left.
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
