//! The policy that follows from all requesters: the hardest answer to a refusal, the schedule of deadlines,
//! and the windows for which entries sleep.

mod deadline;
mod derive;
mod window;

pub use self::{
    deadline::{all_expired, has_expired},
    derive::derive_policy,
    window::all_asleep,
};
pub(crate) use self::{
    deadline::{forced, next_forcing, reached},
    derive::{next_change, policy_at},
    window::{forget_changed, is_awake, rests},
};
