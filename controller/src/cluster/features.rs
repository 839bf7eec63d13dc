//! The features that receive the events of the cluster view.

use std::sync::{Arc, OnceLock, Weak};

use super::{ClusterEvent, Feature};

/// The features of the process. They are registered once, and the cluster view does not keep them alive.
#[derive(Default)]
pub(crate) struct Features(OnceLock<Vec<Weak<dyn Feature>>>);

impl Features {
    /// Registers the features. A second call has no effect.
    pub(crate) fn register(&self, features: &[Arc<dyn Feature>]) {
        self.0.get_or_init(|| features.iter().map(Arc::downgrade).collect());
    }

    /// Passes an event to every feature.
    pub(crate) fn handle(&self, event: &ClusterEvent<'_>) {
        self.each(|feature| feature.handle(event));
    }

    /// Lets every feature queue keys, and makes it queue those that may need work.
    pub(crate) fn begin_term(&self) {
        self.each(|feature| {
            feature.queue().open();
            feature.resync();
        });
    }

    /// Makes every feature queue its keys.
    pub(crate) fn resync(&self) {
        self.each(Feature::resync);
    }

    /// Makes every feature update its gauges.
    pub(crate) fn collect(&self) {
        self.each(Feature::collect);
    }

    /// Makes every feature forget its keys, and what else only a leader knows.
    pub(crate) fn stand_by(&self) {
        self.each(|feature| {
            feature.queue().close();
            feature.end_term();
        });
    }

    fn each(&self, mut call: impl FnMut(&dyn Feature)) {
        for feature in self.0.get().into_iter().flatten().filter_map(Weak::upgrade) {
            call(feature.as_ref());
        }
    }
}
