//! The Evacuations by the pods that they concern.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use evacuation_api::Evacuation;
use evacuation_protocol::is_finished;
use kube::{ResourceExt, runtime::watcher::Event};

/// Namespace and name of an object.
type Key = (String, String);

/// The Evacuations that concern a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// The one of this very pod that has not ended.
    pub(crate) active: Option<Arc<Evacuation>>,
    /// The one of this very pod that ended last.
    pub(crate) last: Option<Arc<Evacuation>>,
    /// The one that ended last of an earlier pod of the same name.
    pub(crate) predecessor: Option<Arc<Evacuation>>,
}

/// An Evacuation as the server has stored it for this gateway.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    evacuation: Arc<Evacuation>,
    /// The number of lists that had begun by then.
    lists: u64,
}

impl Written {
    /// Returns the Evacuation.
    pub(crate) fn evacuation(&self) -> &Evacuation {
        &self.evacuation
    }
}

/// All Evacuations. A plain struct: the watch writes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EvacuationIndex {
    objects: HashMap<Key, Arc<Evacuation>>,
    by_pod: HashMap<Key, HashSet<Key>>,
    /// The list that is being received. It shares the states that are known already.
    listed: Vec<Arc<Evacuation>>,
    /// The latest revision of an object that the list or the watch after it has delivered.
    seen: u64,
    /// The number of lists that have begun.
    begun: u64,
    /// That number when the list began which the objects come from. A list shows every write before it.
    shown: u64,
}

impl EvacuationIndex {
    /// Takes an event of the watch.
    pub(crate) fn take(&mut self, event: &Event<Evacuation>) {
        if let Event::Apply(object) | Event::Delete(object) = event {
            self.seen = self.seen.max(revision(object).unwrap_or_default());
        }
        match event {
            Event::Init => {
                self.listed.clear();
                self.begun += 1;
            }
            Event::InitApply(object) => {
                let known = self.same(object).unwrap_or_else(|| Arc::new(object.clone()));
                self.listed.push(known);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                // A list that breaks on the way has delivered nothing. A restored store goes back.
                let seen = listed.iter().filter_map(|object| revision(object)).max().unwrap_or_default();
                *self = Self { seen, begun: self.begun, shown: self.begun, ..Self::default() };
                for object in listed {
                    self.apply(object);
                }
            }
            Event::Apply(object) => self.apply(Arc::new(object.clone())),
            Event::Delete(object) => self.delete(&key(object)),
        }
    }

    /// Returns the state of an object that is known already, if it is that very state. Its revision does not
    /// show that: after a restore of a backup the same one can name another state.
    fn same(&self, object: &Evacuation) -> Option<Arc<Evacuation>> {
        self.objects.get(&key(object)).filter(|known| known.as_ref() == object).cloned()
    }

    /// Takes in an object. Rehearsals are left out: their answers are no answers to a request, and an
    /// Evacuation never becomes one.
    fn apply(&mut self, object: Arc<Evacuation>) {
        if object.spec.rehearsal {
            return;
        }
        let key = key(&object);
        self.by_pod.entry(pod_key(&object)).or_default().insert(key.clone());
        self.objects.insert(key, object);
    }

    fn delete(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else {
            return;
        };
        let pod = pod_key(&object);
        if let Some(keys) = self.by_pod.get_mut(&pod) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_pod.remove(&pod);
            }
        }
    }

    /// Takes in what a live read has shown in the place of a known object, unless the watch has delivered
    /// that or something later. Of two states of one revision the live one counts.
    pub(crate) fn correct(&mut self, known: &Evacuation, live: Option<Evacuation>) {
        match live {
            Some(live) if revision(&live).is_some_and(|of| of > self.seen) || self.contradicts(&live) => {
                self.apply(Arc::new(live));
            }
            None if self.objects.get(&key(known)).is_some_and(|held| held.uid() == known.uid()) => {
                self.delete(&key(known));
            }
            _ => {}
        }
    }

    /// Returns true when the cache has another state of the same object and revision.
    fn contradicts(&self, live: &Evacuation) -> bool {
        let of = |object: &Evacuation| (object.uid(), revision(object));
        let held = self.objects.get(&key(live)).filter(|held| of(held) == of(live));
        revision(live).is_some() && held.is_some_and(|held| held.as_ref() != live)
    }

    /// Returns an Evacuation as one that this gateway has just written.
    pub(crate) fn written(&self, evacuation: Evacuation) -> Written {
        Written { evacuation: Arc::new(evacuation), lists: self.begun }
    }

    /// Returns true when the watch can still deliver that state of an object, or of its beginning.
    fn awaits(&self, written: &Written) -> bool {
        let Written { evacuation, lists } = written;
        let is_later = revision(evacuation).is_some_and(|of| of > self.seen);
        is_later && *lists >= self.shown && !self.objects.contains_key(&key(evacuation))
    }

    /// Returns the Evacuation of that name.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<Evacuation>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Returns the Evacuations that concern a pod. `written` returns the one that this gateway has written
    /// for the pod: it counts until the watch delivers it, or something later. The active one that the watch
    /// has delivered can be an earlier one, which ended when an expired entry left it.
    pub(crate) fn records_with(
        &self,
        namespace: &str,
        pod: &str,
        uid: &str,
        written: impl FnOnce() -> Option<Written>,
    ) -> Records {
        let mut records = self.records(namespace, pod, uid);
        if let Some(awaited) = written().filter(|written| self.awaits(written)) {
            keep_newer(&mut records.active, &awaited.evacuation);
        }
        records
    }

    /// Returns the Evacuations that concern a pod, as far as the watch has delivered them.
    pub(crate) fn records(&self, namespace: &str, pod: &str, uid: &str) -> Records {
        let mut records = Records::default();
        let keys = self.by_pod.get(&(namespace.to_owned(), pod.to_owned()));
        for object in keys.into_iter().flatten().filter_map(|key| self.objects.get(key)) {
            let ended = object.status.as_ref().is_some_and(is_finished);
            let of_this = object.spec.target.pod.uid.as_deref() == Some(uid);
            match (of_this, ended) {
                (true, false) => keep_newer(&mut records.active, object),
                (true, true) => keep_later(&mut records.last, object),
                (false, true) => keep_later(&mut records.predecessor, object),
                (false, false) => {}
            }
        }
        records
    }
}

fn keep_newer(kept: &mut Option<Arc<Evacuation>>, object: &Arc<Evacuation>) {
    if kept.as_ref().is_none_or(|known| revision(known) < revision(object)) {
        *kept = Some(Arc::clone(object));
    }
}

fn keep_later(kept: &mut Option<Arc<Evacuation>>, object: &Arc<Evacuation>) {
    let end = |evacuation: &Evacuation| evacuation.status.as_ref().and_then(|status| status.finish_time);
    if kept.as_ref().is_none_or(|known| end(known) < end(object)) {
        *kept = Some(Arc::clone(object));
    }
}

/// Returns true when a live state replaces a known one: it is later, or its revision names two states,
/// because the store was restored from a backup.
pub(crate) fn replaces(live: &Evacuation, known: &Evacuation) -> bool {
    match (revision(live), revision(known)) {
        (Some(of), Some(known)) if of != known => of > known,
        _ => live != known,
    }
}

/// Returns the revision of an object's state. They can be compared, as those of Kubernetes (KEP-5504).
fn revision(object: &Evacuation) -> Option<u64> {
    object.metadata.resource_version.as_deref()?.parse().ok()
}

fn key(object: &Evacuation) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn pod_key(object: &Evacuation) -> Key {
    (object.namespace().unwrap_or_default(), object.spec.target.pod.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn evacuation(name: &str, uid: &str, finished: Option<&str>) -> Evacuation {
        let conditions: Vec<_> = finished
            .map(|time| {
                json!({"type": "Finished", "status": "True", "reason": "Evicted", "message": "", "lastTransitionTime": time})
            })
            .into_iter()
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"target": {"pod": {"name": "db-0", "uid": uid}}, "requesters": []},
            "status": {"conditions": conditions, "finishTime": finished},
        }))
        .unwrap()
    }

    fn names(records: &Records) -> [Option<String>; 3] {
        [&records.active, &records.last, &records.predecessor]
            .map(|found| found.as_ref().map(|evacuation| evacuation.name_any()))
    }

    #[test]
    fn a_pod_has_its_active_its_last_and_its_predecessors_evacuation() {
        let mut index = EvacuationIndex::default();
        index.take(&Event::Apply(evacuation("a", "1", Some("2026-01-01T00:00:00Z"))));
        index.take(&Event::Apply(evacuation("b", "2", Some("2026-01-01T00:00:01Z"))));
        index.take(&Event::Apply(evacuation("c", "2", Some("2026-01-01T00:00:02Z"))));
        index.take(&Event::Apply(evacuation("d", "2", None)));
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(names(&index.records("shop", "db-0", "2")), [name("d"), name("c"), name("a")]);
        assert_eq!(names(&index.records("shop", "db-1", "2")), [None, None, None]);
        index.take(&Event::Delete(evacuation("c", "2", None)));
        assert_eq!(names(&index.records("shop", "db-0", "2")), [name("d"), name("b"), name("a")]);
    }

    #[test]
    fn a_rehearsal_is_no_record_of_a_pod() {
        let mut index = EvacuationIndex::default();
        let mut rehearsal = evacuation("a", "1", None);
        rehearsal.spec.rehearsal = true;
        index.take(&Event::Apply(rehearsal.clone()));
        assert_eq!(names(&index.records("shop", "db-0", "1")), [None, None, None]);
        index.take(&Event::Delete(rehearsal));
        assert_eq!(index.objects.len(), 0);
    }

    fn at(name: &str, revision: &str) -> Evacuation {
        let mut object = evacuation(name, "1", None);
        object.metadata.uid = Some(name.to_owned());
        object.metadata.resource_version = Some(revision.to_owned());
        object
    }

    fn list(index: &mut EvacuationIndex, objects: &[Evacuation]) {
        index.take(&Event::Init);
        for object in objects {
            index.take(&Event::InitApply(object.clone()));
        }
        index.take(&Event::InitDone);
    }

    #[test]
    fn a_written_object_is_awaited_until_the_watch_has_delivered_it_or_something_later() {
        let mut index = EvacuationIndex::default();
        index.take(&Event::Apply(at("a", "9")));
        let awaits = |index: &EvacuationIndex, object| index.awaits(&index.written(object));
        assert!(awaits(&index, at("b", "10")));
        assert!(!awaits(&index, at("b", "9")) && !awaits(&index, at("a", "10")));
        assert!(!awaits(&index, evacuation("b", "1", None)), "of no revision");
        index.take(&Event::Apply(at("b", "10")));
        assert!(!awaits(&index, at("b", "10")));
        index.take(&Event::Delete(at("b", "11")));
        assert!(!awaits(&index, at("b", "10")), "its end was delivered");
    }

    /// The gateway took an expired entry out of the first, which canceled it, and asked by the second.
    #[test]
    fn a_written_object_counts_in_place_of_an_earlier_one_whose_end_the_watch_has_not_delivered() {
        let mut index = EvacuationIndex::default();
        index.take(&Event::Apply(at("a", "9")));
        let written = index.written(at("b", "11"));
        let active = |index: &EvacuationIndex| {
            let records = index.records_with("shop", "db-0", "1", || Some(written.clone()));
            names(&records)[0].clone()
        };
        assert_eq!(active(&index).as_deref(), Some("b"));
        index.take(&Event::Apply(at("c", "12")));
        assert_eq!(active(&index).as_deref(), Some("c"), "something later");
    }

    #[test]
    fn a_list_shows_what_was_written_before_it_or_that_it_is_gone() {
        let mut index = EvacuationIndex::default();
        let before = index.written(at("b", "10"));
        index.take(&Event::Init);
        let during = index.written(at("c", "11"));
        index.take(&Event::InitApply(at("a", "9")));
        assert!(index.awaits(&before), "the list is not whole");
        index.take(&Event::Init);
        assert!(index.awaits(&before) && index.awaits(&during), "it broke");
        index.take(&Event::InitApply(at("a", "9")));
        let late = index.written(at("d", "12"));
        index.take(&Event::InitDone);
        assert!(!index.awaits(&before) && !index.awaits(&during) && index.awaits(&late));
    }

    #[test]
    fn after_a_restored_backup_revisions_count_from_where_the_list_is() {
        let mut index = EvacuationIndex::default();
        list(&mut index, &[at("a", "40"), at("b", "90")]);
        let lost = index.written(at("c", "91"));
        list(&mut index, &[at("a", "40")]);
        assert!(!index.awaits(&lost) && index.awaits(&index.written(at("d", "50"))));
        index.correct(&at("a", "40"), Some(at("a", "50")));
        assert_eq!(*index.get("shop", "a").unwrap(), at("a", "50"), "a live state is no older one");
    }

    #[test]
    fn a_list_replaces_a_state_that_has_the_same_revision_and_another_content() {
        let at_9 = |finished| {
            let mut object = evacuation("a", "1", finished);
            object.metadata.uid = Some("e".to_owned());
            object.metadata.resource_version = Some("9".to_owned());
            object
        };
        let (open, ended) = (at_9(None), at_9(Some("2026-01-01T00:00:00Z")));
        let mut index = EvacuationIndex::default();
        index.take(&Event::Apply(ended.clone()));
        let known = index.get("shop", "a").unwrap();
        let mut list = |object: &Evacuation| {
            index.take(&Event::Init);
            index.take(&Event::InitApply(object.clone()));
            index.take(&Event::InitDone);
            index.get("shop", "a").unwrap()
        };
        assert!(Arc::ptr_eq(&list(&ended), &known), "the same state takes no memory again");
        assert_eq!(*list(&open), open);
        assert_eq!(names(&index.records("shop", "db-0", "1")), [Some("a".to_owned()), None, None]);

        assert!(replaces(&ended, &open) && !replaces(&open, &open), "so does a live read");
        index.correct(&open, Some(ended));
        assert_eq!(names(&index.records("shop", "db-0", "1")), [None, Some("a".to_owned()), None]);
    }

    #[test]
    fn a_new_list_takes_the_place_of_everything() {
        let mut index = EvacuationIndex::default();
        index.take(&Event::Apply(evacuation("a", "1", None)));
        index.take(&Event::Init);
        index.take(&Event::InitApply(evacuation("b", "1", None)));
        assert_eq!(names(&index.records("shop", "db-0", "1")), [Some("a".to_owned()), None, None]);
        index.take(&Event::InitDone);
        assert_eq!(names(&index.records("shop", "db-0", "1")), [Some("b".to_owned()), None, None]);
        assert_eq!(index.objects.len(), 1);
    }
}
