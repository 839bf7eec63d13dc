//! Writes of the entries: the checks of rules 3 and 8, and the status that follows.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationSpec, EvacuationStatus, MAX_REQUESTERS, Requester, RequesterKey};

use super::{
    EditError, Editor, RequesterEdit,
    edit::compare,
    ownership::{check_owner, check_retention},
    record::record_requesters,
    withdrawal::check_withdrawal,
};
use crate::{
    pod_group::disrupts,
    policy::{derive_policy, forget_changed, has_expired, policy_at},
    status::{cancel, finished_reason, is_finished},
};

/// Checks an update of the spec by `editor` at `now`: rules 3 and 8, and that no entry is withdrawn while an
/// eviction is in flight or accepted. Both specs are defaulted, and
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
        check_reserved(edit.written(), &new.requesters)?;
        check_room(&old.spec.requesters, &new.requesters)?;
    }
    if !editor.guarded && !edit.removed.is_empty() {
        let requesters = edit.removed.iter().map(ToString::to_string).collect();
        return Err(EditError::Unguarded { requesters });
    }
    if let Some(key) = edit.removed.iter().chain(&edit.receding).next() {
        check_withdrawal(status, Some(*key))?;
    }
    // By `now`: the stored policy may not record yet that a deadline was reached.
    let policy = policy_at(&old.spec.requesters, status, now);
    if let Some(key) = edit.changed.iter().find(|key| has_expired(&policy, **key)) {
        return Err(EditError::Expired { requester: key.to_string() });
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
    check_reserved(requesters.iter().map(Requester::key), requesters)?;
    check_room(&[], requesters)
}

/// Checks that no entry takes a name by which its pod would move without the others of its PodGroup, or would
/// be asked past its budgets, and that none claims to stand for a deletion: one that counts, or one that its
/// caller carries out.
fn check_reserved<'a>(
    written: impl Iterator<Item = RequesterKey<'a>>,
    requesters: &[Requester],
) -> Result<(), EditError> {
    for key in written {
        let requester = key.name.to_owned();
        if !disrupts(key.name) {
            return Err(EditError::Reserved { requester });
        }
        let Some(entry) = requesters.iter().find(|entry| entry.key() == key) else { continue };
        let field = match entry {
            Requester { budget_patience_seconds: Some(_), .. } => "budgetPatienceSeconds",
            Requester { caller_deletes_within_seconds: Some(_), .. } => "callerDeletesWithinSeconds",
            _ => continue,
        };
        return Err(EditError::ReservedField { requester, field });
    }
    Ok(())
}

/// Checks the common maximum. Only holders of the verb `override` add entries above it, so that many
/// requesters exclude no one.
fn check_room(old: &[Requester], new: &[Requester]) -> Result<(), EditError> {
    if new.len() > MAX_REQUESTERS.max(old.len()) { Err(EditError::Full) } else { Ok(()) }
}

/// Returns the status after an edit that [`check_requester_edit`] allowed. Recorded requesters and policy
/// follow the entries. When the last entry left, the Evacuation is canceled.
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
