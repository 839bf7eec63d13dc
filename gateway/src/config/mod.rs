//! The configuration: a table that maps callers to the treatment of their calls.
//!
//! The rows of the file come first, then those of [`built_in`]. The first row that matches counts, and the
//! built-in table ends with a row for every call.

mod built_in;
mod caller_match;
mod callers;
mod file;
mod reference;
mod reload;
mod table;

pub(crate) use self::{
    file::read,
    reload::{ConfigurationFile, ConfigurationGauges},
    table::Table,
};
pub use self::{
    file::{ConfigurationError, check},
    reference::reference,
};
