//! A kitchen: a server with pots and stoves, and clients that cook.

mod client;
mod faults;
mod guests;
mod kettles;
mod kinds;
mod pki;
mod server;

pub(crate) use client::{Answer, Client, pot, revision, summary};
pub(crate) use guests::{TestAuthenticator, TestAuthorizer};
pub(crate) use kettles::{KettleServer, KettleStrategy};
pub(crate) use kinds::{COUNTED, COUNTED_CELLS, Pot};
pub(crate) use pki::Pki;
pub(crate) use server::{Kitchen, Setup, embedded, eventually};
