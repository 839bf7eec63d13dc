//! Requesters: the edits of their entries that rule 3 allows, the record of the users behind the entries, the
//! deletion of an Evacuation, and the check of its target at creation.

mod counted;
mod deletion;
mod edit;
mod edit_error;
mod ownership;
mod record;
mod target;
mod warnings;
mod withdrawal;
mod write;

pub use self::{
    counted::{CountedDeletion, budget_blocked_since, counted_deletion, joined_at, passes_budgets_at},
    deletion::{Deletion, delete},
    edit::RequesterEdit,
    edit_error::EditError,
    ownership::{Editor, MIN_SHARED_TTL_SECONDS, is_kept},
    target::{TargetProblem, TargetWarning, target_problem, target_warning},
    warnings::requester_warnings,
    write::{apply_requester_edit, begin, check_creation, check_requester_edit},
};
