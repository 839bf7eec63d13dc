//! Pods and PodDisruptionBudgets, reduced to the fields that decisions depend on.

mod budget;
mod owner;
mod view;

pub(crate) use self::owner::{daemon_set, is_managed, is_mirror};
pub use self::{
    budget::BudgetView,
    view::{LivePod, PodPhase, PodView},
};
