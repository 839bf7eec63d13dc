//! Projections of the stored objects for a reader.

use std::sync::Arc;

use super::Registry;
use crate::{
    ApiError, Strategy,
    cache::{Entry, FieldValue},
    item::Item,
    selector::{FieldSelector, LabelSelector},
    version::KindVersion,
};

/// Projection of the stored objects for a reader: all, those of a selector, or a view.
pub(crate) trait Projection<O>: Send + Sync {
    /// Returns the projection of an object; `None` when the reader does not see it.
    fn see(&self, entry: &Arc<Entry<O>>) -> Result<Option<Arc<dyn Item>>, ApiError>;

    /// Returns true when some objects may be hidden.
    fn narrows(&self) -> bool;

    /// Returns a selectable field with the value that it has in all objects that the reader sees; `None` when
    /// there is no such field.
    fn field(&self) -> Option<FieldValue> {
        None
    }
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

    /// Returns true when an object of that namespace and name matches. `label` returns the value of a label,
    /// `field` that of one of the kind's own fields.
    pub(crate) fn matches<'l>(
        &self,
        (namespace, name): (&str, &str),
        label: impl Fn(&str) -> Option<&'l str>,
        field: impl Fn(&str) -> &'l str,
    ) -> bool {
        self.labels.matches(label)
            && self.fields.matches(|wanted| match wanted {
                "metadata.name" => name.to_owned(),
                "metadata.namespace" => namespace.to_owned(),
                other => field(other).to_owned(),
            })
    }
}

impl<S: Strategy> Registry<S> {
    /// Returns the value of a selectable field.
    pub(crate) fn field_of<'e>(&self, entry: &'e Entry<S::Object>, field: &str) -> &'e str {
        self.place_of(field).map_or("", |at| entry.head().field(at))
    }

    /// Returns a value of a field, as the cache knows it; `None` for a field that is not selectable.
    pub(crate) fn field_value(&self, field: &str, value: &str) -> Option<FieldValue> {
        self.place_of(field).map(|at| FieldValue { at, value: value.to_owned() })
    }

    fn place_of(&self, field: &str) -> Option<usize> {
        self.strategy.selectable_fields().iter().position(|known| *known == field)
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
    fn see(&self, entry: &Arc<Entry<S::Object>>) -> Result<Option<Arc<dyn Item>>, ApiError> {
        let field = |field: &str| self.registry.field_of(entry, field);
        let seen =
            self.selection.is_empty() || self.selection.matches(entry.names(), |key| entry.label(key), field);
        if seen { self.version.show_entry(entry).map(Some) } else { Ok(None) }
    }

    fn narrows(&self) -> bool {
        !self.selection.is_empty()
    }

    fn field(&self) -> Option<FieldValue> {
        let fields = &self.selection.fields;
        fields.fields().find_map(|field| self.registry.field_value(field, fields.exact(field)?))
    }
}
