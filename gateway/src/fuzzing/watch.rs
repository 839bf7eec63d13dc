//! The gateway's watch of Evacuations in a played world: its events one by one, its lists, and its silence.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationSpec, EvacuationStatus};
use evacuation_protocol::is_finished;
use kube::{ResourceExt, runtime::watcher::Event};

use super::played::after;
use crate::cluster::{EvacuationIndex, Records, Written, replaces};

/// Time for which the gateway keeps what it has written.
pub(super) const WRITTEN_SECONDS: i64 = 60;

/// A watch in progress, and the gateway's caches behind it.
#[derive(Clone, Default)]
pub(super) struct Watch {
    /// The stored objects by their names, each in its last state and with its revision.
    stored: BTreeMap<String, Evacuation>,
    /// The last revision.
    revision: u64,
    /// The events that are on their way.
    due: VecDeque<Event<Evacuation>>,
    /// The objects that the gateway should know, by their names.
    known: BTreeMap<String, Evacuation>,
    index: EvacuationIndex,
    /// The last Evacuation that the gateway has written for a pod, by the pod's UID, and when.
    written: BTreeMap<String, (Written, DateTime<Utc>)>,
    /// True while the watch delivers nothing by itself.
    pub(super) is_silent: bool,
}

impl fmt::Debug for Watch {
    /// Writes what a later decision can depend on. Of the revisions that is only the order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let due = self.due.iter().filter_map(|event| match event {
            Event::Apply(object) => Some(("apply", content(object))),
            Event::Delete(object) => Some(("delete", content(object))),
            Event::Init | Event::InitApply(_) | Event::InitDone => None,
        });
        let written = self.written.values().filter(|_| self.is_behind());
        f.debug_struct("Watch")
            .field("known", &self.known.values().map(content).collect::<Vec<_>>())
            .field("due", &due.collect::<Vec<_>>())
            .field("written", &written.map(|(of, at)| (content(of.evacuation()), at)).collect::<Vec<_>>())
            .field("is_silent", &self.is_silent)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Takes in what is stored now. Each change is an event on its way.
    pub(super) fn store(&mut self, stored: &[Evacuation]) {
        let gone = self.stored.keys().filter(|name| !stored.iter().any(|object| object.name_any() == **name));
        for name in gone.cloned().collect::<Vec<_>>() {
            if let Some(object) = self.stored.remove(&name) {
                let last = self.stamped(&object);
                self.due.push_back(Event::Delete(last));
            }
        }
        for object in stored {
            let known = self.stored.get(&object.name_any());
            if known.is_none_or(|known| known.spec != object.spec || known.status != object.status) {
                let next = self.stamped(object);
                self.stored.insert(object.name_any(), next.clone());
                self.due.push_back(Event::Apply(next));
            }
        }
    }

    /// Returns an object with the next revision.
    fn stamped(&mut self, object: &Evacuation) -> Evacuation {
        self.revision += 1;
        let mut next = object.clone();
        next.metadata.resource_version = Some(self.revision.to_string());
        next
    }

    /// Delivers so many of the events that are on their way.
    pub(super) fn deliver(&mut self, events: usize) {
        for event in self.due.drain(..events.min(self.due.len())) {
            self.index.take(&event);
            match event {
                Event::Apply(object) => {
                    self.known.insert(object.name_any(), object);
                }
                Event::Delete(object) => {
                    self.known.remove(&object.name_any());
                }
                Event::Init | Event::InitApply(_) | Event::InitDone => {}
            }
        }
    }

    /// Delivers every event that is on its way.
    pub(super) fn deliver_all(&mut self) {
        self.deliver(self.due.len());
    }

    /// Lists anew: a list that is `whole` takes the place of everything, one that breaks delivers nothing.
    pub(super) fn list(&mut self, whole: bool) {
        self.index.take(&Event::Init);
        let most = if whole { self.stored.len() } else { self.stored.len() / 2 };
        for object in self.stored.values().take(most) {
            self.index.take(&Event::InitApply(object.clone()));
        }
        if whole {
            self.index.take(&Event::InitDone);
            self.known.clone_from(&self.stored);
            self.due.clear();
        }
    }

    /// Returns true while events are on their way.
    pub(super) fn is_behind(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes in the Evacuation of a pod as the server has stored it for the gateway.
    pub(super) fn note_written(&mut self, uid: &str, name: &str, now: DateTime<Utc>) {
        if let Some(object) = self.stored.get(name) {
            self.written.insert(uid.to_owned(), (self.index.written(object.clone()), now));
        }
    }

    /// Returns the Evacuations that concern a pod, as the gateway's caches know them.
    ///
    /// The index must know what was delivered, in whatever order of events and lists.
    pub(super) fn records(&self, uid: &str, now: DateTime<Utc>) -> Records {
        let found = self.index.records("shop", "db-0", uid);
        let (own, others): (Vec<_>, Vec<_>) =
            self.known.values().partition(|object| object.spec.target.pod.uid.as_deref() == Some(uid));
        let active = own.iter().filter(|object| end(object).is_none()).max_by_key(|object| revision(object));
        assert_eq!(found.active.as_deref(), active.copied(), "the active one of {uid} in {self:?}");
        let last = own.iter().filter_map(|object| end(object)).max();
        assert_eq!(found.last.as_deref().and_then(end), last, "the last one of {uid} in {self:?}");
        let before = others.iter().filter_map(|object| end(object)).max();
        assert_eq!(found.predecessor.as_deref().and_then(end), before, "the one before {uid} in {self:?}");
        self.index.records_with("shop", "db-0", uid, || {
            let kept = self.written.get(uid).filter(|(_, at)| now < after(*at, WRITTEN_SECONDS));
            kept.map(|(written, _)| written.clone())
        })
    }

    /// Reads a known Evacuation live. Returns true when that is its state. Else the caches have it then.
    pub(super) fn confirm(&mut self, known: &Evacuation) -> bool {
        let name = known.name_any();
        let live = self.stored.get(&name).cloned();
        let is_same = live.as_ref().is_some_and(|live| !replaces(live, known));
        if !is_same {
            self.written.remove(known.spec.target.pod.uid.as_deref().unwrap_or_default());
            self.index.correct(known, live.clone());
            self.known.remove(&name);
            self.known.extend(live.map(|live| (name, live)));
        }
        is_same
    }
}

/// Returns what a decision can depend on of an object.
fn content(object: &Evacuation) -> (String, &EvacuationSpec, Option<&EvacuationStatus>) {
    (object.name_any(), &object.spec, object.status.as_ref())
}

/// Returns the time at which an Evacuation ended.
fn end(object: &Evacuation) -> Option<DateTime<Utc>> {
    let status = object.status.as_ref().filter(|status| is_finished(status))?;
    status.finish_time.map(|time| time.0)
}

/// Returns the revision of an object.
fn revision(object: &Evacuation) -> Option<u64> {
    object.metadata.resource_version.as_deref()?.parse().ok()
}
