//! Parts of the watch cache that follow from the rules of a kind.

use std::sync::Arc;

use super::room;
use crate::{
    Strategy,
    cache::{Head, Heads, StandIns},
};

/// Returns what makes the heads of the objects of a strategy.
pub(super) fn heads<S: Strategy>(strategy: Arc<S>) -> Heads<S::Object> {
    Box::new(move |object| {
        let fields = strategy.selectable_fields().iter().map(|field| strategy.field(object, field));
        Head::new(object, fields, strategy.shared_by(object), room::removable(&*strategy, object))
    })
}

/// Returns what makes the stand-ins of the unreadable objects of a strategy.
pub(super) fn stand_ins<S: Strategy>(strategy: Arc<S>) -> StandIns<S::Object> {
    Box::new(move |namespace, name| strategy.stand_in(namespace, name))
}
