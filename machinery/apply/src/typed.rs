//! Documents seen through a schema.
//!
//! Absence and null are different: functions take `Option<&Value>` where a value can be absent.

mod compare;
mod field_set;
mod items;
mod merge;
mod reconcile;
mod remove;
mod shape;
mod validate;

pub use compare::{Comparison, compare};
pub use field_set::field_set;
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::{extract_items, remove_items};
pub use validate::{Duplicates, validate};
