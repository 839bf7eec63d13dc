//! Pods and PodDisruptionBudgets, reduced to the fields that decisions depend on.

mod budget;
mod owner;
mod view;

pub use self::{
    budget::BudgetView,
    view::{LivePod, PodPhase, PodView},
};
pub(crate) use self::{
    budget::holding,
    owner::{controller, daemon_set, is_managed, is_mirror},
};
