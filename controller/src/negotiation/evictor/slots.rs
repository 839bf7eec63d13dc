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
/// First come, first served within a namespace, and between the namespaces that may have another place. A
/// namespace gets a place only while more are free than it holds itself, and at most a quarter of them. Up to
/// seven namespaces whose calls are slow therefore leave a free place to another.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    held: HashSet<ObjectKey>,
    held_by_namespace: HashMap<String, usize>,
    /// Those that wait, by namespace, by the order in which they came.
    waiting: HashMap<String, BTreeMap<u64, ObjectKey>>,
    order: HashMap<ObjectKey, u64>,
    next: u64,
}

impl Slots {
    /// Returns true when an Evacuation has a place. It waits for one otherwise. One that has a place gives it
    /// back by [`Slots::leave`].
    pub(crate) fn ask(&mut self, evacuation: &ObjectKey) -> bool {
        if self.held.contains(evacuation) {
            return true;
        }
        if !self.order.contains_key(evacuation) {
            if self.has_place(&evacuation.namespace) {
                self.take(evacuation.clone());
                return true;
            }
            self.order.insert(evacuation.clone(), self.next);
            let of_namespace = self.waiting.entry(evacuation.namespace.clone()).or_default();
            of_namespace.insert(self.next, evacuation.clone());
            self.next += 1;
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
            self.take(first.clone());
            woken.push(first);
        }
        woken
    }

    /// Returns the number of Evacuations that wait for a place.
    pub(crate) fn waiting(&self) -> usize {
        self.order.len()
    }

    fn has_place(&self, namespace: &str) -> bool {
        let held = self.held_by_namespace.get(namespace).copied().unwrap_or(0);
        held < AT_ONCE.saturating_sub(self.held.len()).min(OF_NAMESPACE)
    }

    /// Returns the one that has waited longest of all whose namespaces may have another place.
    fn first_that_may(&self) -> Option<ObjectKey> {
        let of_namespaces = self.waiting.iter().filter(|(namespace, _)| self.has_place(namespace));
        let firsts = of_namespaces.filter_map(|(_, waiting)| waiting.first_key_value());
        firsts.min_by_key(|(order, _)| **order).map(|(_, evacuation)| evacuation.clone())
    }

    fn take(&mut self, evacuation: ObjectKey) {
        *self.held_by_namespace.entry(evacuation.namespace.clone()).or_default() += 1;
        self.held.insert(evacuation);
    }

    fn forget_waiting(&mut self, evacuation: &ObjectKey) {
        let Some(order) = self.order.remove(evacuation) else { return };
        if let Some(waiting) = self.waiting.get_mut(&evacuation.namespace) {
            waiting.remove(&order);
            if waiting.is_empty() {
                self.waiting.remove(&evacuation.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, at: usize) -> ObjectKey {
        ObjectKey::new(namespace, format!("e-{at}"))
    }

    /// Lets that many Evacuations of a namespace ask. Returns those that got a place.
    fn ask(slots: &mut Slots, namespace: &str, count: usize) -> Vec<ObjectKey> {
        (0..count).map(|at| key(namespace, at)).filter(|evacuation| slots.ask(evacuation)).collect()
    }

    #[test]
    fn those_that_wait_get_their_places_in_the_order_in_which_they_came() {
        let mut slots = Slots::default();
        let held = ask(&mut slots, "ns", 20);
        assert_eq!((held.len(), slots.waiting()), (OF_NAMESPACE, 4));
        // One that asks again keeps its rank, and a later one does not overtake it.
        assert!(!slots.ask(&key("ns", 17)) && !slots.ask(&key("ns", 99)));
        let woken: Vec<_> = held.iter().take(4).flat_map(|held| slots.leave(held)).collect();
        assert_eq!(woken, [key("ns", 16), key("ns", 17), key("ns", 18), key("ns", 19)]);
        assert!(slots.ask(&key("ns", 16)), "the place is kept for it");
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
            assert!(slots.ask(&key("another", 0)), "{slow} slow namespaces");
        }
    }

    #[test]
    fn rule_8_a_namespace_waits_for_one_call_of_however_many_slow_ones() {
        let mut slots = Slots::default();
        let mut held: Vec<_> = (0..20).flat_map(|at| ask(&mut slots, &format!("slow-{at}"), 1000)).collect();
        assert!(!slots.ask(&key("another", 0)));
        let mut calls = 0;
        while let Some(ended) = held.pop() {
            calls += 1;
            let woken = slots.leave(&ended);
            if woken.contains(&key("another", 0)) {
                break;
            }
            held.splice(0..0, woken);
        }
        assert!(slots.ask(&key("another", 0)) && calls <= 20, "{calls} calls");
    }

    #[test]
    fn keys_that_are_gone_take_no_memory() {
        let mut slots = Slots::default();
        ask(&mut slots, "a", 40);
        for at in 0..40 {
            slots.leave(&key("a", at));
        }
        assert!(slots.held.is_empty() && slots.held_by_namespace.is_empty());
        assert!(slots.waiting.is_empty() && slots.order.is_empty());
    }
}
