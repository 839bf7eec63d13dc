//! Places of the attempts under way, and the queue for them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cluster::ObjectKey;

/// Maximum number of evictions and deletions under way, over all namespaces.
const AT_ONCE: usize = 64;
/// Maximum number of those of one namespace.
const OF_NAMESPACE: usize = AT_ONCE / 4;

/// Places of attempts. An Evacuation takes one before its attempt is recorded: an attempt that waits is not
/// fenced, and its time does not run.
///
/// # Guarantees
///
/// Within a namespace deletions come first, as they follow from a deadline; else first come, first served. A
/// namespace gets a place only while more are free than it holds itself, and at most a quarter of them. Up to
/// seven namespaces whose calls are slow therefore leave a free place to another. Namespaces that wait get
/// their places in turn, however many wait in each.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    held: HashSet<ObjectKey>,
    held_by_namespace: HashMap<String, usize>,
    waiting: HashMap<String, Line>,
    ranks: HashMap<ObjectKey, Rank>,
    next: u64,
}

/// Rank within a namespace: false for a deletion, then the order of arrival.
type Rank = (bool, u64);

/// Those of one namespace that wait.
#[derive(Debug)]
struct Line {
    evacuations: BTreeMap<Rank, ObjectKey>,
    /// Time at which the namespace came, or last got a place, in the count of arrivals.
    since: u64,
}

impl Slots {
    /// Returns true when an Evacuation has a place, for a deletion or an eviction. It waits for one
    /// otherwise. One that has a place gives it back by [`Slots::leave`].
    pub(crate) fn ask(&mut self, evacuation: &ObjectKey, deletes: bool) -> bool {
        if self.held.contains(evacuation) {
            return true;
        }
        let known = self.ranks.get(evacuation).copied();
        if known.is_none() && self.has_place(&evacuation.namespace) {
            self.take(evacuation.clone());
            return true;
        }
        let rank = (!deletes, known.map_or_else(|| self.count(), |(_, order)| order));
        if known != Some(rank) {
            let since = known.map_or(rank.1, |(_, order)| order);
            let new = || Line { evacuations: BTreeMap::new(), since };
            let line = self.waiting.entry(evacuation.namespace.clone()).or_insert_with(new);
            if let Some(known) = known {
                line.evacuations.remove(&known);
            }
            line.evacuations.insert(rank, evacuation.clone());
            self.ranks.insert(evacuation.clone(), rank);
        }
        false
    }

    /// Frees the place of an Evacuation, or takes it out of the queue. Returns those that got a place.
    pub(crate) fn leave(&mut self, evacuation: &ObjectKey) -> Vec<ObjectKey> {
        self.forget_waiting(evacuation);
        if !self.held.remove(evacuation) {
            return Vec::new();
        }
        if let Some(held) = self.held_by_namespace.get_mut(&evacuation.namespace) {
            *held -= 1;
            if *held == 0 {
                self.held_by_namespace.remove(&evacuation.namespace);
            }
        }
        let mut woken = Vec::new();
        while let Some(first) = self.first_that_may() {
            self.forget_waiting(&first);
            let now = self.count();
            if let Some(line) = self.waiting.get_mut(&first.namespace) {
                line.since = now;
            }
            self.take(first.clone());
            woken.push(first);
        }
        woken
    }

    /// Returns the number of Evacuations that wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        self.ranks.len()
    }

    fn has_place(&self, namespace: &str) -> bool {
        let held = self.held_by_namespace.get(namespace).copied().unwrap_or(0);
        held < AT_ONCE.saturating_sub(self.held.len()).min(OF_NAMESPACE)
    }

    /// Returns the first of the namespace that has waited longest, of those that may have another place.
    fn first_that_may(&self) -> Option<ObjectKey> {
        let lines = self.waiting.iter().filter(|(namespace, _)| self.has_place(namespace));
        let (_, line) = lines.min_by_key(|(_, line)| line.since)?;
        line.evacuations.first_key_value().map(|(_, evacuation)| evacuation.clone())
    }

    fn take(&mut self, evacuation: ObjectKey) {
        *self.held_by_namespace.entry(evacuation.namespace.clone()).or_default() += 1;
        self.held.insert(evacuation);
    }

    fn count(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn forget_waiting(&mut self, evacuation: &ObjectKey) {
        let Some(rank) = self.ranks.remove(evacuation) else { return };
        if let Some(line) = self.waiting.get_mut(&evacuation.namespace) {
            line.evacuations.remove(&rank);
            if line.evacuations.is_empty() {
                self.waiting.remove(&evacuation.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn key(namespace: &str, at: usize) -> ObjectKey {
        ObjectKey::new(namespace, format!("e-{at}"))
    }

    /// Lets that many Evacuations of a namespace ask. Returns those that got a place.
    fn ask(slots: &mut Slots, namespace: &str, count: usize) -> Vec<ObjectKey> {
        (0..count).map(|at| key(namespace, at)).filter(|evacuation| slots.ask(evacuation, false)).collect()
    }

    #[test]
    fn those_that_wait_get_their_places_in_the_order_in_which_they_came() {
        let mut slots = Slots::default();
        let held = ask(&mut slots, "ns", 20);
        assert_eq!((held.len(), slots.waiting()), (OF_NAMESPACE, 4));
        // One that asks again keeps its rank, and a later one does not overtake it.
        assert!(!slots.ask(&key("ns", 17), false) && !slots.ask(&key("ns", 99), false));
        let woken: Vec<_> = held.iter().take(4).flat_map(|held| slots.leave(held)).collect();
        assert_eq!(woken, [key("ns", 16), key("ns", 17), key("ns", 18), key("ns", 19)]);
        assert!(slots.ask(&key("ns", 16), false), "the place is kept for it");
    }

    #[test]
    fn one_that_leaves_without_a_place_wakes_nobody_and_is_forgotten() {
        let mut slots = Slots::default();
        let held = ask(&mut slots, "ns", OF_NAMESPACE + 2);
        assert_eq!(slots.leave(&key("ns", OF_NAMESPACE)), []);
        assert_eq!(slots.leave(&held[0]), [key("ns", OF_NAMESPACE + 1)]);
        assert_eq!(slots.leave(&held[0]), [], "it has left already");
        assert_eq!(slots.waiting(), 0);
    }

    #[test]
    fn rule_8_however_many_evictions_of_some_namespaces_are_slow_another_gets_a_place() {
        for slow in 0..=7 {
            let mut slots = Slots::default();
            for at in 0..slow {
                ask(&mut slots, &format!("slow-{at}"), 1000);
            }
            assert!(slots.ask(&key("another", 0), false), "{slow} slow namespaces");
        }
    }

    #[test]
    fn a_deletion_comes_before_the_evictions_of_its_namespace_and_one_that_becomes_one_moves_up() {
        let mut slots = Slots::default();
        let held = ask(&mut slots, "ns", 20);
        assert!(!slots.ask(&key("ns", 50), true) && !slots.ask(&key("ns", 19), true));
        let woken: Vec<_> = held.iter().take(3).flat_map(|held| slots.leave(held)).collect();
        assert_eq!(woken, [key("ns", 19), key("ns", 50), key("ns", 16)]);
        assert_eq!(slots.waiting(), 2);
    }

    #[test]
    fn rule_8_a_namespace_waits_for_one_call_of_each_of_however_many_slow_ones() {
        for slow in [20, 64, 200] {
            let mut slots = Slots::default();
            let mut held: VecDeque<_> =
                (0..slow).flat_map(|at| ask(&mut slots, &format!("slow-{at}"), 1000)).collect();
            assert!(!slots.ask(&key("another", 0), false));
            let mut calls = 0;
            while let Some(ended) = held.pop_front() {
                calls += 1;
                let woken = slots.leave(&ended);
                if woken.contains(&key("another", 0)) {
                    break;
                }
                held.extend(woken);
            }
            assert!(slots.ask(&key("another", 0), false) && calls <= slow + 1, "{calls} calls of {slow}");
        }
    }

    #[test]
    fn keys_that_are_gone_take_no_memory() {
        let mut slots = Slots::default();
        ask(&mut slots, "a", 40);
        for at in 0..40 {
            slots.leave(&key("a", at));
        }
        assert!(slots.held.is_empty() && slots.held_by_namespace.is_empty());
        assert!(slots.waiting.is_empty() && slots.ranks.is_empty());
    }
}
