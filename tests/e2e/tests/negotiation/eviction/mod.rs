//! The eviction and what comes after: budgets, grace periods, Events, cancellation, removal.

mod after;
mod budgets;
mod cancellation;
mod pace;
