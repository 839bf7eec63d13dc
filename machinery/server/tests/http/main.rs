//! The server over real HTTP, through the production routes, on a real store, with kinds of its own: a kitchen's pots and
//! stoves.

mod actions;
mod claims;
mod creates;
mod deletes;
mod discovery;
mod lists;
mod outages;
mod refusals;
mod shutdown;
mod support;
mod tables;
mod updates;
mod views;
mod watches;
