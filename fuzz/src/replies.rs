//! Replies of apps.

use std::str::from_utf8;

use evacuation_agent::fuzzing;

use crate::halves;

pub(crate) fn push_reply(input: &[u8]) {
    evacuation_controller::fuzzing::push_reply(input);
}

/// The number of a status, a line break, the first text, a line break, and the second text.
pub(crate) fn agent_verdict(input: &[u8]) {
    let (number, texts) = halves(input);
    let Some(number) = from_utf8(number).ok().and_then(|number| number.trim().parse::<u16>().ok()) else {
        return;
    };
    let (first, second) = halves(texts);
    let second = String::from_utf8_lossy(second);
    fuzzing::reply(number, first, &second);
    // As wait(2) has them: an exit code, and a signal.
    for status in [(i32::from(number) & 0xff) << 8, i32::from(number) & 0x7f] {
        fuzzing::exit(status, &String::from_utf8_lossy(first), &second);
    }
}
