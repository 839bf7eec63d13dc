//! What the requester keeps in memory: what to look at, and what was told. Nothing of it decides.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use super::{Limits, RefreshOptions};
use crate::{controller::lock, queue::WorkQueue};

/// What the requester keeps in memory.
#[derive(Debug)]
pub(crate) struct Refresher {
    pub(super) limits: Limits,
    /// The namespaces to look at.
    pub(super) queue: WorkQueue<String>,
    /// The namespaces in which any change of a pod may matter.
    pending: Mutex<HashSet<String>>,
    /// What the last Event on a pod said, in a word, by namespace and the pod's UID.
    told: Mutex<HashMap<String, HashMap<String, &'static str>>>,
}

impl Refresher {
    /// The requester with the limits of the command line; `None` when it is switched off.
    pub(crate) fn new(options: &RefreshOptions) -> Option<Self> {
        options.refresh.then(|| Self {
            limits: Limits::from(options),
            queue: WorkQueue::default(),
            pending: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// Has a namespace looked at.
    pub(crate) fn wake(&self, namespace: String) {
        self.queue.add(namespace);
    }

    pub(super) fn is_pending(&self, namespace: &str) -> bool {
        lock(&self.pending).contains(namespace)
    }

    pub(super) fn set_pending(&self, namespace: &str, pending: bool) {
        let mut all = lock(&self.pending);
        if pending {
            all.insert(namespace.to_owned());
        } else {
            all.remove(namespace);
        }
    }

    /// Takes in what is to be told of pods now, in a word by UID. Gives back the UIDs of those of which something else, or nothing, was
    /// told before.
    pub(super) fn news(&self, namespace: &str, now: HashMap<String, &'static str>) -> HashSet<String> {
        let mut told = lock(&self.told);
        let before = told.remove(namespace).unwrap_or_default();
        let news = now
            .iter()
            .filter(|(uid, word)| before.get(*uid) != Some(*word))
            .map(|(uid, _)| uid.clone())
            .collect();
        if !now.is_empty() {
            told.insert(namespace.to_owned(), now);
        }
        news
    }

    /// Forgets what only a leader knows.
    pub(crate) fn end_term(&self) {
        lock(&self.pending).clear();
        lock(&self.told).clear();
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn of_a_pod_it_is_told_only_what_was_not_told_last() {
        let options = RefreshOptions {
            refresh: true,
            refresh_backoff: TimeDelta::minutes(1),
            refresh_longest_backoff: TimeDelta::minutes(1),
            refresh_settled_after: TimeDelta::minutes(1),
            refresh_recovered_after: TimeDelta::minutes(1),
            refresh_per_minute: 1,
        };
        let refresher = Refresher::new(&options).unwrap();
        let told = |word| refresher.news("ns", [("u".to_owned(), word)].into()).len();
        assert_eq!(told("backoff"), 1);
        assert_eq!(told("backoff"), 0);
        assert_eq!(told("new_pod"), 1);
        assert_eq!(refresher.news("ns", HashMap::new()).len(), 0);
        assert_eq!(told("new_pod"), 1);
        refresher.end_term();
        assert_eq!(told("new_pod"), 1);
        assert!(Refresher::new(&RefreshOptions { refresh: false, ..options }).is_none());
    }
}
