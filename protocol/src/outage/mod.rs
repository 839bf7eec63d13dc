//! Outages: when the evacuation API does not answer, when nobody acts, and what an answer is worth then.
//!
//! Controller and gateway use the same definitions. Each measures by its own monotonic clock, and what is
//! compared with stored data is computed from stored data. Outages that overlap are one ([`OutageSpan`]).
//!
//! | state | definition | consequence |
//! | --- | --- | --- |
//! | interrupted | no proof of a write for 5 s | controller: only deadlines act, until 30 s after the end |
//! | away | no reply for 5 s, and 3 probes in a row failed | controller: waits with its requests |
//! | outage | no proof of a write for 5 s, nor by 3 probes in a row | gateway: [`hold_in_outage`] |
//! | nobody led | at a takeover, the last holder last worked 5 s ago | controller: as after an interruption |
//! | nobody acts | a lease unchanged for 30 s, or a blind holder | gateway: [`hold_in_outage`]; API warns |

mod hold;
mod lease;
mod reachability;
mod span;

pub use self::{
    hold::{Hold, Opening, Outage, OutageCause, Recorded, hold_in_outage, recorded},
    lease::{LEADERLESS, LeaseAge, NO_CONTROLLER, lease_renewed, lease_worked, nobody_led},
    reachability::{Proof, Reachability, is_recent},
    span::OutageSpan,
};
