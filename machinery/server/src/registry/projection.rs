//! Projections of the stored objects for a reader.

use std::sync::Arc;

use super::Registry;
use crate::{
    Object, Strategy,
    selector::{FieldSelector, LabelSelector},
    stored::{Item, Stored},
    version::KindVersion,
};

/// Projection of the stored objects for a reader: all, those of a selector, or a view.
pub(crate) trait Projection<O>: Send + Sync {
    /// Returns the projection of an object; `None` when the reader does not see it.
    fn see(&self, stored: &Arc<Stored<O>>) -> Option<Arc<dyn Item>>;

    /// Returns true when some objects may be hidden.
    fn narrows(&self) -> bool;
}

/// Selector of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns the name of the only object that can match.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Returns true when an object matches; `field` returns the values of the kind's own fields.
    pub(crate) fn matches<O: Object>(&self, object: &O, field: impl Fn(&str) -> String) -> bool {
        let meta = object.meta();
        self.labels.matches(meta.labels.as_ref())
            && self.fields.matches(|name| match name {
                "metadata.name" => meta.name.clone().unwrap_or_default(),
                "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
                other => field(other),
            })
    }
}

/// Projection that shows the objects of a selection in one version.
pub(crate) struct Selected<S: Strategy> {
    pub(crate) registry: Arc<Registry<S>>,
    /// Version in which it shows them.
    pub(crate) version: Arc<dyn KindVersion<S::Object>>,
    pub(crate) selection: Selection,
}

impl<S: Strategy> Projection<S::Object> for Selected<S> {
    fn see(&self, stored: &Arc<Stored<S::Object>>) -> Option<Arc<dyn Item>> {
        let strategy = self.registry.strategy();
        let object: &S::Object = stored;
        let seen = self.selection.is_empty()
            || self.selection.matches(object, |field| strategy.field(object, field));
        seen.then(|| self.version.show(stored))
    }

    fn narrows(&self) -> bool {
        !self.selection.is_empty()
    }
}
