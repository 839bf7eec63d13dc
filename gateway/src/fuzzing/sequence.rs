//! Sequences of bytes as steps of a world.

use std::collections::BTreeSet;

use evacuation_api::Answer;

use super::world::{ASKING_COUNT, CALLER_COUNT, GatewayFlaw, GatewaySettings, GatewayStep, GatewayWorld};

/// Maximum number of steps of a sequence.
const STEPS: usize = 256;
/// Times by which the clock goes on, in seconds.
const PAUSES: [i64; 9] = [1, 5, 29, 31, 61, 400, 1000, 1739, 1801];

/// Plays a sequence: the first byte has the settings, each further pair of bytes is a step.
///
/// After each step the rules 8 to 11 hold by an oracle that reads no status.
pub fn judge_sequence(input: &[u8]) {
    let (world, _) = play(input, None);
    assert_eq!(world.broken(), None, "{}", world.line());
}

/// Plays a sequence up to the first broken law. Returns the world, and the outcomes of its calls.
fn play(input: &[u8], flaw: Option<GatewayFlaw>) -> (GatewayWorld, BTreeSet<&'static str>) {
    let (settings, steps) = input.split_first().unwrap_or((&0, &[]));
    let mut outcomes = BTreeSet::new();
    let mut world = GatewayWorld::new(GatewaySettings {
        registered: settings & 1 != 0,
        full_budget: settings & 2 != 0,
        asks_all: settings & 4 != 0,
        counts: settings & 8 != 0,
        flaw,
    });
    for bytes in steps.chunks_exact(2).take(STEPS) {
        if let [act, argument] = *bytes {
            outcomes.extend(world.step(step(act, argument.into())));
        }
        if world.broken().is_some() {
            break;
        }
    }
    (world, outcomes)
}

fn step(act: u8, argument: usize) -> GatewayStep {
    match act % 8 {
        0 => GatewayStep::Pass { seconds: PAUSES.get(argument % PAUSES.len()).copied().unwrap_or(1) },
        1 | 2 => {
            // Few of the calls always pass.
            let callers = if act < 240 { ASKING_COUNT } else { CALLER_COUNT };
            let form = usize::from(act / 8 % 8);
            GatewayStep::Review { caller: argument % callers, by_uid: argument & 64 != 0, form }
        }
        3 => {
            let answers = [Answer::Accept, Answer::Delay, Answer::Refuse];
            GatewayStep::Answer {
                answer: answers.get(argument % 3).copied().unwrap_or(Answer::Accept),
                seconds: [10, 300, 3000].get(argument / 3 % 3).copied().unwrap_or(10),
            }
        }
        4 => GatewayStep::Control,
        5 if argument % 4 == 3 => GatewayStep::Cordon { node: argument / 4 % 2 },
        5 => GatewayStep::Shift,
        6 if argument.is_multiple_of(4) => GatewayStep::Replace,
        6 if argument % 4 == 1 => GatewayStep::Lead,
        6 if argument % 4 == 3 => GatewayStep::Lag,
        6 => GatewayStep::Api,
        7 if act >= 128 => match argument % 8 {
            0 | 1 => GatewayStep::Silence,
            2 => GatewayStep::List { whole: argument & 8 != 0 },
            3 => GatewayStep::Forget,
            4 => GatewayStep::Reject,
            _ => GatewayStep::Deliver { events: 1 + argument / 8 % 3 },
        },
        _ => GatewayStep::Withdraw { entry: argument },
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::fuzzing::GatewayLaw;

    /// Outcomes that calls of the sequences have: each way to pass, and each other verdict.
    const OUTCOMES: &[&str] = &[
        "ask",
        "blocked_too_long",
        "count",
        "exempt",
        "gone",
        "hold_ended",
        "no_controller",
        "responders_done",
        "unanswered_api_down",
        "unanswered_no_controller",
        "unrecorded",
        "unregistered",
        "wait",
    ];

    /// The byte of a step, and its arguments. None means any.
    type Act = (u8, &'static [u8]);

    /// Numbers of sequences, settings that are on, and acts: all of them, and those around a full budget. No
    /// act means any.
    const PROFILES: [(usize, u8, &[Act]); 2] = [
        (1000, 0, &[]),
        (
            400,
            0b1010,
            &[
                (0, &[]),
                (0, &[]),
                (0, &[]),
                (1, &[0, 3, 5, 6]),
                (1, &[3, 5]),
                (3, &[]),
                (4, &[]),
                (4, &[]),
                (4, &[]),
                (5, &[0]),
                (7, &[]),
            ],
        ),
    ];

    /// Returns sequences of 80 steps, the same in each run.
    fn sequences() -> impl Iterator<Item = Vec<u8>> {
        // A linear congruential generator.
        let mut state: u64 = 1;
        let mut byte = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[2]
        };
        let profiles =
            PROFILES.into_iter().flat_map(|(count, settings, acts)| iter::repeat_n((settings, acts), count));
        profiles.map(move |(settings, acts)| {
            let mut input = vec![byte() | settings];
            for _ in 0..80 {
                let (act, argument) = (byte(), byte());
                let (act, arguments) = pick(acts, act).unwrap_or((act, &[]));
                input.extend([act, pick(arguments, argument).unwrap_or(argument)]);
            }
            input
        })
    }

    /// Returns the one of them that a byte picks.
    fn pick<T: Copy>(all: &[T], byte: u8) -> Option<T> {
        all.get(usize::from(byte) % all.len().max(1)).copied()
    }

    #[test]
    fn no_sequence_of_calls_and_changes_breaks_a_promise() {
        let mut outcomes = BTreeSet::new();
        for input in sequences() {
            let (world, some) = play(&input, None);
            assert_eq!(world.broken(), None, "{}", world.line());
            outcomes.extend(some);
        }
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), OUTCOMES);
    }

    #[test]
    fn the_sequences_find_each_rule_that_a_gateway_does_not_keep() {
        for (flaw, law) in [
            (GatewayFlaw::HoldsNothing, GatewayLaw::Holds),
            (GatewayFlaw::BlindToNodes, GatewayLaw::Gone),
            (GatewayFlaw::NoLease, GatewayLaw::Ends),
            (GatewayFlaw::NoPatience, GatewayLaw::Patience),
            (GatewayFlaw::BlindToRegistrations, GatewayLaw::Asked),
            (GatewayFlaw::ForgetsQuestions, GatewayLaw::Holds),
            (GatewayFlaw::ReadsNothing, GatewayLaw::Holds),
            (GatewayFlaw::TakesRejectionsForOutages, GatewayLaw::Asked),
        ] {
            let breaks = |input: Vec<u8>| play(&input, Some(flaw)).0.broken().is_some_and(|(l, _)| *l == law);
            assert!(sequences().any(breaks), "{flaw:?} breaks no law {law:?}");
        }
    }
}
