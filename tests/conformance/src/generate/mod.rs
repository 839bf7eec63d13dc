//! Sequences of requests, from a seed.

mod objects;
mod options;
mod requests;
mod scale;

use proptest::{
    collection::vec,
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::Request;

/// Names of the objects of a sequence: few, so that requests meet.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Number of requests of a sequence.
const LENGTH: std::ops::RangeInclusive<usize> = 6..=14;

/// Returns the sequence of a seed: the same for the same seed.
pub fn sequence(seed: u64) -> Vec<Request> {
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().zip(seed.to_le_bytes()) {
        *place = byte;
    }
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    // The strategies reject nothing.
    vec(requests::any(), LENGTH).new_tree(&mut runner).map(|tree| tree.current()).unwrap_or_default()
}

/// One of these values.
fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> proptest::sample::Select<T> {
    proptest::sample::select(values.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_sequence_and_seeds_differ() {
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
        assert!(LENGTH.contains(&sequence(7).len()));
    }
}
