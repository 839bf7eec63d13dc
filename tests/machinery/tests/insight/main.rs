//! Audit events and traces of a server behind a real kube-apiserver, beside those of the kube-apiserver
//! itself for a custom resource of the same shape.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod audit;
mod collector;
mod pan;
mod stage;
mod traces;
