//! x
#![allow(dead_code)]
mod fields_v1;
mod go_text;
mod path;
mod set;
mod value;

pub use fields_v1::{FieldsError, MAX_FIELDS, MAX_FIELDS_DEPTH};
pub use path::{Path, PathElement};
pub use set::FieldSet;
