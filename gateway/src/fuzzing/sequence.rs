//! Sequences of bytes as steps of a world.

use evacuation_api::Answer;

use super::world::{CALLER_COUNT, GatewaySettings, GatewayStep, GatewayWorld};

/// Maximum number of steps of a sequence.
const STEPS: usize = 256;
/// Times by which the clock goes on, in seconds.
const PAUSES: [i64; 8] = [1, 5, 29, 31, 61, 400, 1000, 1801];

/// Plays a sequence: the first byte has the settings, each further pair of bytes is a step.
///
/// After each step the rules 8, 10 and 11 hold by an oracle that reads no status.
pub fn judge_sequence(input: &[u8]) {
    let (settings, steps) = input.split_first().unwrap_or((&0, &[]));
    let mut world = GatewayWorld::new(GatewaySettings {
        registered: settings & 1 != 0,
        full_budget: settings & 2 != 0,
        asks_all: settings & 4 != 0,
        counts: settings & 8 != 0,
        flaw: None,
    });
    for bytes in steps.chunks_exact(2).take(STEPS) {
        if let [act, argument] = *bytes {
            world.step(step(act, argument.into()));
            assert_eq!(world.broken(), None, "{}", world.line());
        }
    }
}

fn step(act: u8, argument: usize) -> GatewayStep {
    match act % 8 {
        0 => GatewayStep::Pass { seconds: PAUSES.get(argument % PAUSES.len()).copied().unwrap_or(1) },
        1 | 2 => GatewayStep::Call { caller: argument % CALLER_COUNT, by_uid: argument & 64 != 0 },
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
        _ => GatewayStep::Withdraw { entry: argument },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sequence_of_calls_and_changes_breaks_a_promise() {
        // A linear congruential generator: the same sequences in each run.
        let mut state: u64 = 1;
        for _ in 0..3000 {
            let mut input = Vec::with_capacity(161);
            for _ in 0..161 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                input.push(state.to_be_bytes()[2]);
            }
            judge_sequence(&input);
        }
    }
}
