//! Pods and PodDisruptionBudgets, reduced to the fields that decisions depend on.

mod budget;
mod budget_state;
mod owner;
mod pin;
mod view;

pub use self::{
    budget::BudgetView,
    budget_state::BudgetState,
    pin::keep_pin,
    view::{LivePod, PodPhase, PodView},
};
pub(crate) use self::{
    budget::holding,
    budget_state::sync_failure,
    owner::{controller, daemon_set, is_managed, is_mirror, is_own_daemon_set},
    pin::tolerates_cordon,
};
