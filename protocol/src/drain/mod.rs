//! Drains: the pods of a node that a drain evacuates, deletes, skips or refuses, with the meanings of
//! `kubectl drain`, and the verdict on the pods that it moves.

mod pick;
mod reason;
mod verdict;

pub use self::{
    pick::{DrainFilters, Picked, pick},
    reason::{DrainRefusal, DrainSkip, DrainWarning},
    verdict::{DrainedPod, PodCount, PodJudgement, STUCK_AFTER_SECONDS, Standing, Summary, judge, summarize},
};
