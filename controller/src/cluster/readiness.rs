//! The parts of the cluster view that are known already.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The names of the kinds that were listed, and of what else must be known before the controller acts.
#[derive(Debug)]
pub(crate) struct Readiness(watch::Sender<BTreeSet<&'static str>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(watch::channel(BTreeSet::new()).0)
    }
}

impl Readiness {
    /// Records that the part of that name is known.
    pub(crate) fn set(&self, name: &'static str) {
        self.0.send_if_modified(|known| known.insert(name));
    }

    /// Waits until every part of those names is known.
    pub(crate) async fn wait(&self, names: &[&'static str]) {
        // The sender lives as long as this value.
        let _ = self.0.subscribe().wait_for(|known| names.iter().all(|name| known.contains(name))).await;
    }

    /// Returns the names that are not known yet.
    pub(crate) fn missing(&self, names: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
        let known = self.0.borrow();
        names.into_iter().filter(|name| !known.contains(name)).collect()
    }
}
