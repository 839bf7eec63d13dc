//! The worlds that are walked.

use evacuation_api::{DeadlineAction, RefusalPolicy};

use crate::{Config, Entry, Limits, Registered, Rules, Say, User};

const NO_LIMITS: Limits = Limits {
    crashes: 0,
    losses: 0,
    misses: 0,
    answers: 0,
    edits: 0,
    forgeries: 0,
    shifts: 0,
    departures: 0,
    objects: 1,
};

const fn entry(on_refusal: RefusalPolicy, deadline: Option<(i64, DeadlineAction)>) -> Entry {
    Entry { on_refusal, deadline, window: None, caller_deletes_within: None }
}

const WAIT: Entry = entry(RefusalPolicy::Wait, None);
const GIVE_UP: Entry = entry(RefusalPolicy::GiveUp, None);
const OVERRIDE: Entry = entry(RefusalPolicy::Override, None);
const GIVE_UP_AT_4: Entry = entry(RefusalPolicy::Override, Some((4, DeadlineAction::GiveUp)));
const GIVEN_UP: Entry = entry(RefusalPolicy::Override, Some((0, DeadlineAction::GiveUp)));
const EVICT_AT_6: Entry = entry(RefusalPolicy::Wait, Some((6, DeadlineAction::Evict)));
const DELETES_WITHIN_3: Entry = Entry {
    caller_deletes_within: Some(3),
    ..entry(RefusalPolicy::GiveUp, Some((8, DeadlineAction::GiveUp)))
};

const fn sleeps(entry: Entry, minute: u32) -> Entry {
    Entry { window: Some(minute), ..entry }
}

/// The worlds that are walked, each for a part of the protocol.
pub fn worlds() -> Vec<Config> {
    vec![
        ANSWERS, PEOPLE, DEADLINES, FENCE, JUMPS, LEADERS, BUDGET, AGAIN, MADNESS, WINDOWS, SLEEPERS,
        CALLERS, QUESTIONS, REMINDERS,
    ]
}

const fn waits(timeout: i64, max_delay: i64) -> Registered {
    Registered { timeout, max_delay, endpoint: false }
}

const fn endpoint(timeout: i64, max_delay: i64) -> Registered {
    Registered { timeout, max_delay, endpoint: true }
}

const fn stays(entry: Entry) -> User {
    User { first: Some(entry), says: &[], leaves: false }
}

const fn leaves(entry: Entry) -> User {
    User { leaves: true, ..stays(entry) }
}

const fn joins(says: &'static [Entry]) -> User {
    User { first: None, says, leaves: true }
}

const ANSWERS: Config = Config {
    name: "answers",
    about: "two answers in every order, late, repeated and out of turn; a clock that is off",
    instants: &[0, 2, 4, 6, 8],
    skews: &[-2, 0, 2],
    controllers: 1,
    responders: &[waits(4, 6), waits(2, 2)],
    answers: &[Say::Accept, Say::Refuse, Say::Delay(2), Say::Delay(60)],
    users: &[stays(entry(RefusalPolicy::Wait, Some((8, DeadlineAction::Evict))))],
    budget: None,
    limits: Limits { answers: 2, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const PEOPLE: Config = Config {
    name: "people",
    about: "two who want the pod moved join, change, leave and delete",
    instants: &[0, 4, 6, 8],
    skews: &[0],
    controllers: 1,
    responders: &[waits(4, 6)],
    answers: &[Say::Accept, Say::Refuse],
    users: &[
        User { first: Some(WAIT), says: &[GIVE_UP, EVICT_AT_6], leaves: true },
        joins(&[OVERRIDE, GIVE_UP_AT_4]),
    ],
    budget: None,
    limits: Limits { answers: 1, edits: 2, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const DEADLINES: Config = Config {
    name: "deadlines",
    about: "deadlines of every kind as a schedule; a clock that is ahead; the pod is deleted by another",
    instants: &[0, 4, 6, 8, 10],
    skews: &[0, 2],
    controllers: 1,
    responders: &[waits(60, 60)],
    answers: &[Say::Refuse, Say::Delay(60)],
    users: &[
        stays(GIVE_UP_AT_4),
        leaves(EVICT_AT_6),
        leaves(entry(RefusalPolicy::GiveUp, Some((8, DeadlineAction::Delete)))),
    ],
    budget: Some(false),
    limits: Limits { answers: 1, edits: 1, departures: 1, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const FENCE: Config = Config {
    name: "fence",
    about: "leaving, giving up, crashes and lost replies around every step of an eviction; clocks that are off",
    instants: &[0, 2, 8, 10, 12, 20],
    skews: &[-2, 2],
    controllers: 1,
    responders: &[],
    answers: &[],
    users: &[User { says: &[GIVEN_UP], ..leaves(OVERRIDE) }],
    budget: None,
    limits: Limits { edits: 1, crashes: 1, losses: 1, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const JUMPS: Config = Config {
    name: "jumps",
    about: "an eviction, a withdrawal and a crash, by clocks that jump by a minute",
    instants: &[0, 2, 8, 10, 12, 20],
    skews: &[-60, 0, 60],
    limits: Limits { edits: 1, crashes: 1, ..NO_LIMITS },
    ..FENCE
};

const LEADERS: Config = Config {
    name: "leaders",
    about: "two controllers that both think that they lead",
    instants: &[0, 2, 8, 10, 12],
    skews: &[0, 2],
    controllers: 2,
    responders: &[],
    answers: &[],
    users: &[leaves(WAIT)],
    budget: None,
    limits: Limits { edits: 1, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const BUDGET: Config = Config {
    name: "budget",
    about: "a budget that changes its mind, a withdrawal, a crash, a Delete deadline",
    instants: &[0, 2, 10, 12, 20, 70],
    skews: &[0],
    controllers: 1,
    responders: &[],
    answers: &[],
    users: &[leaves(entry(RefusalPolicy::Wait, Some((20, DeadlineAction::Delete))))],
    budget: Some(false),
    limits: Limits { edits: 1, crashes: 1, shifts: 1, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const AGAIN: Config = Config {
    name: "again",
    about: "a second Evacuation of the same pod",
    instants: &[0, 2, 4],
    skews: &[0],
    controllers: 1,
    responders: &[waits(2, 2)],
    answers: &[Say::Accept, Say::Refuse],
    users: &[leaves(GIVE_UP)],
    budget: None,
    limits: Limits { answers: 1, edits: 1, objects: 2, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const MADNESS: Config = Config {
    name: "madness",
    about: "a controller gone mad writes whatever it likes",
    instants: &[0, 2, 4, 6],
    skews: &[0],
    controllers: 1,
    responders: &[waits(4, 4), waits(4, 4)],
    answers: &[Say::Accept, Say::Refuse, Say::Delay(2)],
    users: &[leaves(entry(RefusalPolicy::GiveUp, Some((6, DeadlineAction::Evict))))],
    budget: None,
    limits: Limits { answers: 1, edits: 1, forgeries: 2, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const WINDOWS: Config = Config {
    name: "windows",
    about: "one who waits for a window and one who does not: they join, change and leave; clocks that are off",
    instants: &[0, 58, 60, 62],
    skews: &[-2, 2],
    controllers: 1,
    responders: &[waits(2, 2)],
    answers: &[Say::Accept, Say::Refuse],
    users: &[
        User { first: Some(sleeps(OVERRIDE, 1)), says: &[OVERRIDE, sleeps(OVERRIDE, 2)], leaves: true },
        joins(&[WAIT]),
    ],
    budget: None,
    limits: Limits { answers: 1, edits: 2, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const SLEEPERS: Config = Config {
    name: "sleepers",
    about: "two windows and two deadlines outside of them; a controller gone mad",
    instants: &[0, 58, 60, 62, 64],
    skews: &[0, 2],
    controllers: 1,
    responders: &[waits(4, 4)],
    answers: &[Say::Refuse],
    users: &[
        leaves(Entry { deadline: Some((62, DeadlineAction::Delete)), ..sleeps(GIVE_UP, 5) }),
        leaves(Entry { deadline: Some((64, DeadlineAction::GiveUp)), ..sleeps(OVERRIDE, 1) }),
    ],
    budget: None,
    limits: Limits { answers: 1, edits: 1, forgeries: 1, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const CALLERS: Config = Config {
    name: "callers",
    about: "a caller that deletes the pod, or does not come back; another who joins; clocks that are off",
    instants: &[0, 2, 4, 6, 8, 10],
    skews: &[-2, 0, 2],
    controllers: 1,
    responders: &[waits(4, 4)],
    answers: &[Say::Accept, Say::Refuse],
    users: &[leaves(DELETES_WITHIN_3), joins(&[WAIT])],
    budget: None,
    limits: Limits { answers: 1, edits: 1, departures: 1, ..NO_LIMITS },
    asks_only: false,
    rules: Rules::KEPT,
};

const QUESTIONS: Config = Config {
    name: "questions",
    about: "an endpoint that is asked late, cannot be reached, or replies; a new leader; clocks that are off",
    // None is within the error of a clock before the end of a time to answer.
    instants: &[0, 4, 8, 16, 24],
    skews: &[0, 2],
    controllers: 1,
    responders: &[endpoint(8, 60)],
    answers: &[Say::Accept, Say::Refuse],
    users: &[stays(GIVE_UP)],
    budget: None,
    limits: Limits { answers: 1, crashes: 1, misses: 1, ..NO_LIMITS },
    asks_only: true,
    rules: Rules::KEPT,
};

const REMINDERS: Config = Config {
    name: "reminders",
    about: "an endpoint that asks for time, and is reminded in time, late or never; a new leader",
    instants: &[0, 8, 26, 30, 36, 38, 50],
    skews: &[0],
    controllers: 1,
    responders: &[endpoint(8, 40)],
    answers: &[Say::Delay(30)],
    users: &[stays(WAIT)],
    budget: None,
    limits: Limits { answers: 1, crashes: 1, misses: 1, ..NO_LIMITS },
    asks_only: true,
    rules: Rules::KEPT,
};
