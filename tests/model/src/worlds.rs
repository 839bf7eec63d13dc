//! The worlds that are walked.

use evacuation_api::{DeadlineAction, RefusalPolicy};

use crate::{Config, Entry, Limits, Registered, Rules, Say, User};

const NO_LIMITS: Limits = Limits {
    crashes: 0,
    losses: 0,
    answers: 0,
    edits: 0,
    forgeries: 0,
    shifts: 0,
    departures: 0,
    objects: 1,
};

const fn entry(on_refusal: RefusalPolicy, deadline: Option<(i64, DeadlineAction)>) -> Entry {
    Entry { on_refusal, deadline }
}

const WAIT: Entry = entry(RefusalPolicy::Wait, None);
const GIVE_UP: Entry = entry(RefusalPolicy::GiveUp, None);
const OVERRIDE: Entry = entry(RefusalPolicy::Override, None);
const EVICT_AT_6: Entry = entry(RefusalPolicy::Wait, Some((6, DeadlineAction::Evict)));

/// The worlds that are walked, each for a part of the protocol.
pub fn worlds() -> Vec<Config> {
    vec![Config {
        name: "negotiation",
        instants: &[0, 2, 4, 6, 8, 16, 18, 30],
        skews: &[-2, 0, 2],
        controllers: 1,
        responders: &[
            Registered { timeout: 4, max_delay: 6 },
            Registered { timeout: 2, max_delay: 2 },
        ],
        answers: &[Say::Accept, Say::Refuse, Say::Delay(2)],
        users: &[
            User { first: Some(EVICT_AT_6), says: &[], leaves: true },
            User { first: None, says: &[GIVE_UP, WAIT, OVERRIDE], leaves: true },
        ],
        budget: None,
        limits: Limits { answers: 2, edits: 1, crashes: 1, losses: 1, ..NO_LIMITS },
        rules: Rules::KEPT,
    }]
}
