//! The seven rules and the fence, each by its name.

mod answering;
mod fence;
mod requesters;
mod rights;
mod target;
mod uniqueness;
