//! The log of a process: its level, its form, and one line for each event.
//!
//! Error texts can hold newlines of others. Each line of the log is still one event.

#[cfg(feature = "subscriber")]
mod json;
mod one_line;
#[cfg(feature = "subscriber")]
mod options;
#[cfg(feature = "subscriber")]
mod writer;

pub use one_line::one_line;
#[cfg(feature = "subscriber")]
pub use options::{LogFormat, LogOptions};
