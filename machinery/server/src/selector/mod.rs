//! Label and field selectors, from their text form.

mod field;
mod label;

pub(crate) use field::FieldSelector;
pub(crate) use label::LabelSelector;
