//! NodeEvacuations and their rules in the index.

use std::sync::Arc;

use evacuation_api::{NodeEvacuation, NodeEvacuationRule};

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

impl Indexed for NodeEvacuation {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.drains
    }

    /// Administrators write them, and the controller writes them as a whole.
    fn project(&mut self) {
        self.metadata.managed_fields = None;
    }

    /// A NodeEvacuation touches no Evacuation by itself: its entries do.
    fn changed(_: &mut Index, _: &Change<Self>) -> Vec<ObjectKey> {
        Vec::new()
    }
}

impl Indexed for NodeEvacuationRule {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.rules
    }

    /// Administrators write them, and the controller writes them as a whole.
    fn project(&mut self) {
        self.metadata.managed_fields = None;
    }

    /// A rule touches no Evacuation: its NodeEvacuations do.
    fn changed(_: &mut Index, _: &Change<Self>) -> Vec<ObjectKey> {
        Vec::new()
    }
}

impl Index {
    /// The NodeEvacuation of that key.
    pub(crate) fn drain(&self, key: &ObjectKey) -> Option<Arc<NodeEvacuation>> {
        self.drains.get(key).cloned()
    }

    /// Every NodeEvacuation.
    pub(crate) fn drains(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<NodeEvacuation>)> {
        self.drains.iter()
    }

    /// Every NodeEvacuationRule, ordered by name.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Arc<NodeEvacuationRule>> {
        self.rules.iter().map(|(_, rule)| rule)
    }
}
