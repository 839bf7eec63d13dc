//! Evacuations that failed and are gone, until the drains that asked by them have recorded their pods.
//!
//! A user can delete an Evacuation before its drain has seen that it failed. Without this memory the drain
//! would ask the pod again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use evacuation_api::Evacuation;

use crate::cluster::{ObjectKey, lock};

/// Maximum number of Evacuations that are kept for one drain.
const MOST: usize = 1000;

/// The Evacuations, by drain.
#[derive(Default)]
pub(super) struct Departed(Mutex<HashMap<ObjectKey, Vec<Arc<Evacuation>>>>);

impl Departed {
    /// Keeps an Evacuation that is gone for a drain that has its entry in it.
    pub(super) fn add(&self, drain: ObjectKey, evacuation: &Arc<Evacuation>) {
        let mut all = lock(&self.0);
        let of_drain = all.entry(drain).or_default();
        if of_drain.len() < MOST {
            of_drain.push(Arc::clone(evacuation));
        }
    }

    /// Returns those of a drain.
    pub(super) fn of(&self, drain: &ObjectKey) -> Vec<Arc<Evacuation>> {
        lock(&self.0).get(drain).cloned().unwrap_or_default()
    }

    /// Drops those that the drain has recorded.
    pub(super) fn remove(&self, drain: &ObjectKey, recorded: &[Arc<Evacuation>]) {
        let mut all = lock(&self.0);
        if let Some(of_drain) = all.get_mut(drain) {
            of_drain.retain(|kept| !recorded.iter().any(|known| Arc::ptr_eq(known, kept)));
        }
        all.retain(|_, kept| !kept.is_empty());
    }

    /// Drops all of a drain.
    pub(super) fn forget(&self, drain: &ObjectKey) {
        lock(&self.0).remove(drain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evacuation_is_kept_until_its_drain_has_recorded_it() {
        let (departed, drain) = (Departed::default(), ObjectKey::new("", "d"));
        let gone = || {
            let json = serde_json::json!({"spec": {"target": {"pod": {"name": "p"}}, "requesters": []}});
            Arc::new(serde_json::from_value::<Evacuation>(json).unwrap())
        };
        let (first, second) = (gone(), gone());
        departed.add(drain.clone(), &first);
        departed.add(drain.clone(), &second);
        departed.remove(&drain, &[Arc::clone(&first)]);
        let [kept] = &departed.of(&drain)[..] else { panic!("one is left") };
        assert!(Arc::ptr_eq(kept, &second));
        departed.forget(&drain);
        assert!(departed.of(&drain).is_empty());
    }
}
