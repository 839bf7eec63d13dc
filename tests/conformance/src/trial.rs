//! Trials: a sequence of requests to both sides.

use std::{collections::BTreeSet, fmt};

use crate::{Exchange, Mismatch, Request, Side, differences, mismatches};

/// Number of times that a failing sequence must fail again before it counts.
const REPEATS: usize = 1;

/// Both sides in a namespace of their own.
pub struct Trial {
    theirs: Side,
    ours: Side,
}

/// Result of a sequence.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Number of requests that both sides answered.
    pub requests: usize,
    /// Names of the intended differences that occurred.
    pub differences: BTreeSet<&'static str>,
    /// The first request whose replies differ without a reason, and all places in which they differ.
    pub failure: Option<(usize, Vec<Mismatch>)>,
}

/// A sequence that fails, with no request that it does not need.
#[derive(Debug)]
pub struct Failure {
    /// The requests. The last one fails.
    pub sequence: Vec<Request>,
    /// Places in which the replies to the last request differ.
    pub mismatches: Vec<Mismatch>,
}

impl Trial {
    /// Returns a trial of the custom resource and the example kind.
    pub fn new((theirs, ours): (Side, Side)) -> Self {
        Self { theirs, ours }
    }

    /// Sends a sequence to both sides and compares the replies, until one differs without a reason, or one
    /// side carried out what the other refused.
    ///
    /// # Errors
    ///
    /// A server did not answer.
    pub async fn run(&mut self, sequence: &[Request]) -> anyhow::Result<Outcome> {
        tokio::try_join!(self.theirs.clear(), self.ours.clear())?;
        let mut outcome = Outcome::default();
        for (at, request) in sequence.iter().enumerate() {
            let (theirs, ours) = tokio::try_join!(self.theirs.send(request), self.ours.send(request))?;
            let (Some(theirs), Some(ours)) = (theirs, ours) else { continue };
            outcome.requests += 1;
            let exchange = Exchange {
                request,
                theirs: &theirs,
                ours: &ours,
                before: sequence.get(..at).unwrap_or_default(),
            };
            // No difference explains an error of the machinery itself.
            let broken = ours.code >= 500 && theirs.code < 500;
            let mut failed = Vec::new();
            for mismatch in mismatches(&theirs, &ours) {
                match differences().find(|difference| difference.explains(&exchange, &mismatch)) {
                    Some(difference) if !broken => {
                        outcome.differences.insert(difference.name);
                    }
                    _ => failed.push(mismatch),
                }
            }
            if !failed.is_empty() {
                outcome.failure = Some((at, failed));
                break;
            }
            let apart = theirs.is_success() != ours.is_success();
            if apart || differences().any(|known| known.diverges && outcome.differences.contains(known.name))
            {
                break;
            }
        }
        Ok(outcome)
    }

    /// Repeats a failing sequence and leaves out every request that the failure does not need. `None` when
    /// the failure does not repeat.
    ///
    /// # Errors
    ///
    /// A server did not answer.
    pub async fn shorten(&mut self, sequence: &[Request], failed: usize) -> anyhow::Result<Option<Failure>> {
        let mut sequence: Vec<Request> = sequence.iter().take(failed + 1).cloned().collect();
        let mut mismatches = Vec::new();
        for _ in 0..REPEATS {
            match self.run(&sequence).await?.failure {
                Some((at, found)) => {
                    sequence.truncate(at + 1);
                    mismatches = found;
                }
                None => return Ok(None),
            }
        }
        let places =
            |found: &[Mismatch]| -> Vec<String> { found.iter().map(|found| found.place.clone()).collect() };
        let wanted = places(&mismatches);
        for at in (0..sequence.len().saturating_sub(1)).rev() {
            let mut shorter = sequence.clone();
            shorter.remove(at);
            if let Some((last, found)) = self.run(&shorter).await?.failure
                && last + 1 == shorter.len()
                && places(&found) == wanted
            {
                (sequence, mismatches) = (shorter, found);
            }
        }
        Ok(Some(Failure { sequence, mismatches }))
    }
}

/// The requests and the places, for a person.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for request in &self.sequence {
            writeln!(f, "  {request}")?;
        }
        for mismatch in &self.mismatches {
            writeln!(f, "    {mismatch}")?;
        }
        Ok(())
    }
}
