//! The worlds of the gateway that are walked.

use evacuation_api::Answer;
use evacuation_gateway::fuzzing::{GatewaySettings, GatewayStep};

/// Steps of one kind, and how often they may be taken altogether.
type Steps = (&'static [GatewayStep], u8);

/// A small world of the gateway.
#[derive(Clone, Copy, Debug)]
pub struct GateConfig {
    /// For people.
    pub name: &'static str,
    /// The purpose of the world, in words.
    pub about: &'static str,
    /// The settings of the world.
    pub settings: GatewaySettings,
    /// The steps that are possible.
    pub steps: &'static [Steps],
}

/// The worlds of the gateway that are walked, each for a part of its promises.
pub fn gate_worlds() -> Vec<GateConfig> {
    vec![OUTAGES, LEADERLESS, SUCCESSORS, LEDGER, REJECTIONS]
}

const APP: GatewaySettings =
    GatewaySettings { registered: true, full_budget: false, asks_all: false, counts: false, flaw: None };

const fn call(caller: usize) -> GatewayStep {
    GatewayStep::Call { caller, by_uid: false }
}

const fn says(answer: Answer, seconds: i64) -> GatewayStep {
    GatewayStep::Answer { answer, seconds }
}

const fn pass(seconds: i64) -> GatewayStep {
    GatewayStep::Pass { seconds }
}

/// An eviction by a person, and a deletion by the controller of taints, which overrides refusals.
const CALLS: &[GatewayStep] = &[call(0), call(4)];
const ANSWERS: &[GatewayStep] = &[says(Answer::Accept, 0), says(Answer::Delay, 300), says(Answer::Refuse, 0)];

const OUTAGES: GateConfig = GateConfig {
    name: "outages",
    about: "an API that pauses, comes and goes, while callers retry and an answer holds",
    settings: APP,
    steps: &[
        (CALLS, 2),
        (ANSWERS, 1),
        (&[GatewayStep::Api], 2),
        (&[pass(3), pass(301), pass(1000)], 2),
        (&[GatewayStep::Control], 1),
    ],
};

const LEADERLESS: GateConfig = GateConfig {
    name: "leaderless",
    about: "a controller that is away, and with it the API, while callers retry",
    settings: APP,
    steps: &[
        (CALLS, 2),
        (&[says(Answer::Refuse, 0)], 1),
        (&[GatewayStep::Lead, GatewayStep::Api], 2),
        (&[pass(31), pass(1000)], 2),
        (&[GatewayStep::Control], 1),
    ],
};

const SUCCESSORS: GateConfig = GateConfig {
    name: "successors",
    about: "a StatefulSet's pod whose node is drained, and then the node of its successor",
    settings: APP,
    steps: &[
        (&[call(0), call(1), GatewayStep::Call { caller: 0, by_uid: true }], 3),
        (&[says(Answer::Accept, 0)], 1),
        (&[GatewayStep::Cordon { node: 0 }, GatewayStep::Cordon { node: 1 }], 2),
        (&[GatewayStep::Control, GatewayStep::Replace], 2),
        (&[pass(31)], 1),
    ],
};

const LEDGER: GateConfig = GateConfig {
    name: "ledger",
    about: "a deletion that counts against a full budget, a drain of the same pod, and an outage",
    settings: GatewaySettings { full_budget: true, counts: true, ..APP },
    steps: &[
        (&[call(0), call(3)], 2),
        (&[says(Answer::Accept, 0)], 1),
        (&[GatewayStep::Shift, GatewayStep::Lead, GatewayStep::Api], 1),
        (&[pass(61), pass(1801)], 2),
        (&[GatewayStep::Control, GatewayStep::Withdraw { entry: 0 }], 2),
    ],
};

const REJECTIONS: GateConfig = GateConfig {
    name: "rejections",
    about: "an API that rejects entries for a time, while callers retry, stop and come back, and an app answers",
    settings: APP,
    steps: &[
        (CALLS, 2),
        (&[says(Answer::Refuse, 0)], 1),
        (&[GatewayStep::Reject], 2),
        (&[pass(61), pass(1801)], 2),
        (&[GatewayStep::Control, GatewayStep::Withdraw { entry: 0 }], 1),
    ],
};
