//! One state of the world.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use evacuation_api::{Evacuation, EvacuationStatus};
use evacuation_protocol::{Delivered, EvictionOutcome, state_word};

use crate::{
    Broken, Limits, Say,
    history::{Asked, History},
};

/// One state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The server's clock, in seconds from the creation.
    pub(crate) now: i64,
    /// The Evacuations, in the order of their creation.
    pub(crate) objects: Vec<Object>,
    /// The target as it is.
    pub(crate) pod: Pod,
    /// The budget that selects the pod, if there is one: true while it allows a disruption.
    pub(crate) budget: Option<bool>,
    pub(crate) controllers: Vec<Controller>,
    /// Writes of a status that are under way.
    pub(crate) writes: Vec<Write>,
    /// Evictions and deletions that are under way.
    pub(crate) evictions: Vec<Eviction>,
    /// The events that may still happen.
    pub(crate) left: Limits,
    /// The laws that were broken on the way.
    pub(crate) broken: Broken,
}

/// An Evacuation in the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    /// `None` once it is deleted.
    pub(crate) stored: Option<Version>,
    /// Its history, seen from outside.
    pub(crate) history: History,
}

/// One version of an Evacuation. Its content is its resourceVersion. Two writes may lead back to the same
/// content. A stale write then passes only if it equals the write of a fresh look.
#[derive(Clone)]
pub(crate) struct Version {
    hash: u64,
    evacuation: Arc<Evacuation>,
}

/// The target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pod {
    Live,
    Terminating { until: i64 },
    Gone,
}

/// The memory of a controller. A crash loses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Controller {
    /// The Evacuations as its watch last showed them, or as the server last answered.
    pub(crate) cache: Vec<Option<Version>>,
    /// The pod as its watch last showed it.
    pub(crate) pod: Pod,
    /// The attempts that it recorded, one an Evacuation.
    pub(crate) attempts: Vec<Option<Recorded>>,
    /// The questions to endpoints that it began to post last, one an Evacuation.
    pub(crate) questions: Vec<Option<Question>>,
}

/// A question to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) delivered: Delivered,
    /// The reply that the server does not have yet.
    pub(crate) reply: Option<Say>,
}

/// An attempt that a controller recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recorded {
    /// Number of the attempt: `status.eviction.attempts`.
    pub(crate) number: i32,
    /// The time at which it must be over.
    pub(crate) until: i64,
    pub(crate) step: Step,
}

/// The progress of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Recorded,
    Posted,
    Over(EvictionOutcome),
}

/// A write of a status that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    /// The controller that waits for the reply.
    pub(crate) by: Option<usize>,
    pub(crate) object: usize,
    /// The version that it was decided on.
    pub(crate) base: Version,
    pub(crate) proposed: Version,
    /// The time at which it was sent.
    pub(crate) sent: i64,
    /// The time of the decision, by the decider's clock.
    pub(crate) decided: i64,
    /// What had become of the questions to endpoints, by which the decision is judged.
    pub(crate) questions: Vec<Asked>,
}

/// An eviction or deletion that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Eviction {
    /// The controller that waits for the reply.
    pub(crate) by: Option<usize>,
    pub(crate) object: usize,
    pub(crate) number: i32,
    pub(crate) deletes: bool,
    /// It arrives before this or never.
    pub(crate) until: i64,
}

impl Version {
    pub(crate) fn new(evacuation: Evacuation) -> Self {
        let metadata = &evacuation.metadata;
        let content = (
            metadata.generation,
            metadata.deletion_timestamp.is_some(),
            &evacuation.spec,
            &evacuation.status,
        );
        let mut hasher = DefaultHasher::new();
        // Objects of the API always serialise.
        serde_json::to_vec(&content).unwrap_or_default().hash(&mut hasher);
        Self { hash: hasher.finish(), evacuation: Arc::new(evacuation) }
    }

    /// The same Evacuation with another status.
    pub(crate) fn with_status(&self, status: EvacuationStatus) -> Self {
        Self::new(Evacuation { status: Some(status), ..self.evacuation.as_ref().clone() })
    }

    pub(crate) fn status(&self) -> EvacuationStatus {
        self.evacuation.status.clone().unwrap_or_default()
    }

    pub(crate) fn in_flight(&self) -> bool {
        let status = self.evacuation.status.as_ref();
        status.and_then(|s| s.eviction.as_ref()).is_some_and(|e| e.in_flight)
    }

    /// Returns the number of recorded attempts.
    pub(crate) fn attempts(&self) -> i32 {
        let status = self.evacuation.status.as_ref();
        status.and_then(|s| s.eviction.as_ref()).map_or(0, |e| e.attempts)
    }
}

impl Deref for Version {
    type Target = Evacuation;

    fn deref(&self) -> &Evacuation {
        &self.evacuation
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// In one line: a counterexample has many.
impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", state_word(self))?;
        let Some(status) = &self.evacuation.status else {
            return Ok(());
        };
        if let Some(policy) = &status.policy {
            write!(f, " {:?}", policy.on_refusal)?;
            for deadline in policy.deadlines.iter().filter(|d| d.reached) {
                write!(f, " reached:{:?}", deadline.action)?;
            }
        }
        for r in status.responders.iter().flatten() {
            write!(f, " {:?}", r.state)?;
            if let Some(answer) = r.answer {
                write!(f, "({answer:?})")?;
            }
        }
        if let Some(e) = &status.eviction {
            write!(f, " attempts:{} in_flight:{} accepted:{}", e.attempts, e.in_flight, e.accepted)?;
        }
        Ok(())
    }
}
