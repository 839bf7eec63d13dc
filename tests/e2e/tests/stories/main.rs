//! The user stories of KEP-4563 and its two cancellations, each played on a real control plane;
//! `docs/reference/stories.md` says what each means here. Two are told where their responders are tested: the
//! suite `builtin`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panic, so that the logs are kept"
)]

mod an_admin_sees_progress;
mod cancellation_by_the_last_requester;
mod cancellation_is_acknowledged;
mod descheduling;
mod registration;
mod responders_with_priorities;
mod scale_down_keeps_the_spread;
mod termination_in_place;
