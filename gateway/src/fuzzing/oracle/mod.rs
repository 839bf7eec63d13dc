//! The oracle of the judge: what callers and the app have been told, remembered apart from any status.

mod checks;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, DeadlineAction, EvacuationResponseStatus, RefusalPolicy, Requester, WholeSecond,
};

use super::{law::GatewayLaw, played::after};

/// User and name of an entry.
type Entry = (String, String);

/// Time in which a responder may stay silent, by default.
const SILENCE_SECONDS: i64 = 60;
/// Maximum time in which an answer holds in an outage.
pub(crate) const HOLD_SECONDS: i64 = 900;

/// Memory of the present pod and of the earlier ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    /// Entries of the present pod.
    entries: BTreeMap<Entry, Own>,
    /// Time at which the app was asked.
    asked: Option<DateTime<Utc>>,
    /// Time of the last write of an entry.
    written: Option<DateTime<Utc>>,
    /// Time of the last question to the present pod in an Evacuation that has ended.
    asked_before: Option<DateTime<Utc>>,
    /// The last answer of the app, and until when its delay was granted.
    said: Option<(Answer, Option<DateTime<Utc>>)>,
    /// Time at which an entry forces the eviction.
    forced: Option<DateTime<Utc>>,
    /// True when an entry overrides refusals.
    overrides: bool,
    /// Time at which the controller first found the budget without room, without another look in between.
    no_room: Option<DateTime<Utc>>,
    /// True when a call has passed because an answer held to the bound of the outage that lasts.
    passed_bound: bool,
    /// Users who asked for the present pod, also in Evacuations that have ended.
    users: BTreeSet<String>,
    /// The earlier pods.
    before: Vec<Earlier>,
    /// The first law that was broken, and how.
    broken: Option<(GatewayLaw, String)>,
}

/// Times of an entry.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// Time at which it was made.
    made: DateTime<Utc>,
    /// Time at which it expires unless its caller tries again.
    until: Option<DateTime<Utc>>,
}

impl Own {
    /// Returns true for an entry whose caller stopped trying, also before the controller has recorded that.
    fn has_expired(self, now: DateTime<Utc>) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// An earlier pod of the name.
#[derive(Clone, Debug)]
struct Earlier {
    /// Its entries.
    entries: BTreeMap<Entry, Own>,
    /// Its node.
    node: Option<usize>,
    /// Time at which its app was asked.
    asked: Option<DateTime<Utc>>,
    /// Time of its end, once that is recorded.
    end: Option<DateTime<Utc>>,
}

impl Oracle {
    /// Notes that a law was broken unless it holds. `how` describes the breach.
    pub(crate) fn require(&mut self, law: GatewayLaw, holds: bool, how: impl FnOnce(&Self) -> String) {
        if !holds && self.broken.is_none() {
            let how = how(self);
            self.broken = Some((law, how));
        }
    }

    /// Returns the first law that was broken, and how.
    pub(crate) fn broken(&self) -> Option<&(GatewayLaw, String)> {
        self.broken.as_ref()
    }

    /// Notes an entry that was written.
    pub(crate) fn asked(&mut self, entry: &Requester, expired: bool, now: DateTime<Utc>) {
        if expired {
            self.left(entry);
        }
        self.asked.get_or_insert(now);
        self.written = Some(now);
        self.users.insert(entry.owner.clone());
        let deadline = entry.deadline.map(WholeSecond::time);
        let gives_up = entry.at_deadline == Some(DeadlineAction::GiveUp);
        let key = (entry.owner.clone(), entry.name.clone());
        let known = self.entries.get(&key).filter(|own| !own.has_expired(now));
        let own = Own { made: known.map_or(now, |own| own.made), until: deadline.filter(|_| gives_up) };
        self.entries.insert(key, own);
        if entry.at_deadline == Some(DeadlineAction::Evict) {
            self.forced = self.forced.into_iter().chain(deadline).min();
        }
        self.overrides |= entry.on_refusal == Some(RefusalPolicy::Override);
    }

    /// Notes that an entry left. Without any the Evacuation is over, and the pod stays.
    pub(crate) fn left(&mut self, entry: &Requester) {
        self.entries.remove(&(entry.owner.clone(), entry.name.clone()));
        if self.entries.is_empty() {
            self.ended();
        }
    }

    /// Notes an answer that the server took.
    pub(crate) fn answered(&mut self, said: Answer, reply: &EvacuationResponseStatus) {
        self.said = Some((said, reply.delay_until.map(|time| time.0)));
    }

    /// Notes that a call has passed because an answer held to the bound of the outage that lasts.
    pub(crate) fn passed_bound(&mut self) {
        self.passed_bound = true;
    }

    /// Notes that there was a moment at which everything worked.
    pub(crate) fn worked(&mut self) {
        self.passed_bound = false;
    }

    /// Notes that the controller has looked at the budget. It is the reason only when no answer holds.
    pub(crate) fn looked(&mut self, registered: bool, room: bool, now: DateTime<Utc>) {
        let blocks = !room && !self.entries.is_empty() && self.holds(registered, now).is_none();
        self.no_room = blocks.then(|| self.no_room.unwrap_or(now));
    }

    /// Notes that the Evacuation ended and the pod stays.
    pub(crate) fn ended(&mut self) {
        let old = std::mem::take(self);
        *self = Self {
            asked_before: old.asked.or(old.asked_before),
            users: old.users,
            before: old.before,
            broken: old.broken,
            ..Self::default()
        };
    }

    /// Notes that another pod has the name. The node is that of the earlier one.
    pub(crate) fn replaced(&mut self, node: Option<usize>) {
        let entries = std::mem::take(&mut self.entries);
        self.before.push(Earlier { entries, node, asked: self.asked, end: None });
        self.ended();
        self.asked_before = None;
        self.users.clear();
    }

    /// Notes that the ends of the earlier pods are recorded.
    pub(crate) fn recorded(&mut self, now: DateTime<Utc>) {
        for earlier in &mut self.before {
            earlier.end.get_or_insert(now);
        }
    }

    /// Returns what holds the app's pod, if anything does.
    fn holds(&self, registered: bool, now: DateTime<Utc>) -> Option<String> {
        let holds = match self.said {
            _ if !registered || self.forced.is_some_and(|time| time <= now) => false,
            Some((Answer::Accept, _)) => false,
            Some((Answer::Refuse, _)) => !self.overrides,
            Some((Answer::Delay, until)) => until.is_some_and(|until| now < until),
            None => self.asked.is_some_and(|asked| now < after(asked, SILENCE_SECONDS)),
        };
        holds.then(|| format!("{self:?} at {now}"))
    }
}
