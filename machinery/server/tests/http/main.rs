//! The server over real HTTP, through the production routes, on a real store, with kinds of its own: a
//! kitchen's pots and stoves.

// Helpers of tests fail as tests do; clippy spares only the test functions themselves.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod actions;
mod admission;
mod applies;
mod audit;
mod builds;
mod claims;
mod creates;
mod deletes;
mod discovery;
mod large_bodies;
mod limits;
mod lists;
mod object_limits;
mod outages;
mod protobuf;
mod refusals;
mod scales;
mod shutdown;
mod support;
mod tables;
mod tls;
mod unreadable;
mod updates;
mod versions;
mod views;
mod watches;
mod websockets;
