//! Ownership of entries: rule 3. Only the owner, or a holder of the verb `override`, changes or removes an
//! entry.

use evacuation_api::{
    DRAIN_ENTRY_PREFIX, Evacuation, EvacuationSpec, GATEWAY_ENTRY_PREFIX, POD_GROUP_REQUESTER,
    REFRESH_REQUESTER, RequesterKey,
};

use super::EditError;

/// The caller of an edit, and the force of the request.
#[derive(Clone, Copy, Debug)]
pub struct Editor<'a> {
    /// The user's name.
    pub user: &'a str,
    /// True when the user holds the verb `override`. Pass false first, and ask for the verb only after an
    /// error that [it lifts](EditError::is_forbidden).
    pub may_override: bool,
    /// True when the request names the resourceVersion that the caller has read.
    pub guarded: bool,
}

/// Minimum of `ttlSecondsAfterFinished`, in seconds, that one owner may set where others have or had entries.
pub const MIN_SHARED_TTL_SECONDS: i64 = 300;

/// Returns true for the name of an entry that a drain, the controller or the gateway writes for a user. They
/// would change it back.
pub fn is_kept(entry: &str) -> bool {
    [DRAIN_ENTRY_PREFIX, GATEWAY_ENTRY_PREFIX].iter().any(|prefix| entry.starts_with(prefix))
        || [REFRESH_REQUESTER, POD_GROUP_REQUESTER].contains(&entry)
}

/// Checks that every entry belongs to `user`.
pub(crate) fn check_owner<'a>(
    keys: impl IntoIterator<Item = RequesterKey<'a>>,
    user: &str,
) -> Result<(), EditError> {
    for key in keys {
        if key.owner != user {
            return Err(EditError::NotYours { requester: key.name.to_owned(), owner: key.owner.to_owned() });
        }
    }
    Ok(())
}

/// Checks a change of `ttlSecondsAfterFinished`: no other user makes a record vanish that the requesters may
/// read.
///
/// Only a user who has or had an entry changes it, and not below [`MIN_SHARED_TTL_SECONDS`] where other users
/// have or had one. A holder of the verb `override` may set any value.
pub(crate) fn check_retention(
    old: &Evacuation,
    new: &EvacuationSpec,
    editor: Editor<'_>,
) -> Result<(), EditError> {
    let (before, after) = (old.spec.ttl_seconds_after_finished, new.ttl_seconds_after_finished);
    if before == after || editor.may_override {
        return Ok(());
    }
    let recorded = old.status.iter().flat_map(|status| &status.requesters);
    let mut owners = recorded.map(|known| &known.owner).chain(old.spec.requesters.iter().map(|r| &r.owner));
    let shared = owners.clone().any(|owner| owner != editor.user);
    if !owners.any(|owner| owner == editor.user) {
        return Err(EditError::Retention { why: "the user has no entry" });
    }
    if shared && after < before && after < Some(MIN_SHARED_TTL_SECONDS) {
        return Err(EditError::Retention { why: "other users have entries, and the minimum is 300" });
    }
    Ok(())
}
