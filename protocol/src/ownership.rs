//! Ownership of entries: rule 3. Only the user who made an entry, or a user with the verb `override`, changes
//! or removes it.

use evacuation_api::EvacuationStatus;

use crate::EditError;

/// Checks that `user` made every one of the entries.
pub(crate) fn check_owner<'a>(
    status: &EvacuationStatus,
    names: impl IntoIterator<Item = &'a String>,
    user: &str,
) -> Result<(), EditError> {
    for name in names {
        let owner =
            status.requesters.iter().find(|r| r.name == *name).map_or("nobody known", |r| r.user.as_str());
        if owner != user {
            return Err(EditError::NotYours { requester: name.clone(), owner: owner.to_owned() });
        }
    }
    Ok(())
}
