//! Amounts of one resource of the server that are in use.

use std::collections::HashMap;

use super::{limits::Limits, permit::Claim};
use crate::http::caller::{Caller, Rank};

/// Amounts in use, by all and by each caller.
#[derive(Debug, Default)]
pub(super) struct Usage {
    total: usize,
    views: usize,
    by_namespace: HashMap<String, usize>,
    by_caller: HashMap<String, usize>,
}

/// The limit that keeps a request out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The caller's share.
    Caller(usize),
    /// The share of the namespace's service accounts.
    Namespace(String),
    /// The maximum for all.
    All,
}

impl Usage {
    /// Returns the limit that keeps a request out.
    pub(super) fn limit_reached(&self, limits: &Limits, caller: &Caller, claim: Claim) -> Option<Limit> {
        let exceeds = |used: usize, most: usize| used > 0 && used + claim.amount > most;
        let used = |by: &HashMap<String, usize>, name: &str| by.get(name).copied().unwrap_or_default();
        let all = if caller.rank == Rank::Priority { limits.total } else { limits.total - limits.reserve };
        if caller.rank == Rank::Ordinary {
            let most = if claim.of_view { limits.of_caller_on_views } else { limits.of_caller };
            if exceeds(used(&self.by_caller, &caller.name), most) {
                return Some(Limit::Caller(most));
            }
            if let Some(namespace) = &caller.namespace
                && exceeds(used(&self.by_namespace, namespace), limits.of_namespace)
            {
                return Some(Limit::Namespace(namespace.clone()));
            }
            if claim.of_view && self.views + claim.amount > limits.views {
                return Some(Limit::All);
            }
        }
        (self.total.saturating_add(claim.amount) > all).then_some(Limit::All)
    }

    /// Returns true when all callers together leave room for a request, of a priority caller or of others.
    pub(super) fn has_room(&self, limits: &Limits, for_priority: bool) -> bool {
        self.total < if for_priority { limits.total } else { limits.total - limits.reserve }
    }

    pub(super) fn add(&mut self, caller: &Caller, claim: Claim) {
        self.total += claim.amount;
        self.views += if claim.of_view { claim.amount } else { 0 };
        *self.by_caller.entry(caller.name.clone()).or_default() += claim.amount;
        if let Some(namespace) = &caller.namespace {
            *self.by_namespace.entry(namespace.clone()).or_default() += claim.amount;
        }
    }

    pub(super) fn remove(&mut self, caller: &Caller, claim: Claim) {
        self.total = self.total.saturating_sub(claim.amount);
        self.views = self.views.saturating_sub(if claim.of_view { claim.amount } else { 0 });
        subtract(&mut self.by_caller, &caller.name, claim.amount);
        if let Some(namespace) = &caller.namespace {
            subtract(&mut self.by_namespace, namespace, claim.amount);
        }
    }

    /// Returns true when nothing is in use, and nothing is kept of callers.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0 && self.views == 0 && self.by_caller.is_empty() && self.by_namespace.is_empty()
    }
}

/// Subtracts from an entry, and forgets it at zero.
fn subtract(amounts: &mut HashMap<String, usize>, name: &str, amount: usize) {
    let Some(used) = amounts.get_mut(name) else { return };
    *used = used.saturating_sub(amount);
    if *used == 0 {
        amounts.remove(name);
    }
}
