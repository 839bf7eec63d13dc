//! The rules that the server guarantees, whoever writes: over HTTP, through the production routes, on the
//! embedded store. What the cluster says (pods, rights, namespaces) is given by the tests.

// Clippy knows the tests of an integration test, but not what they share.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod applies;
mod cluster;
mod creation;
mod fence;
mod harness;
mod node_evacuation;
mod node_evacuation_rule;
mod node_evacuation_status;
mod object_limits;
mod registration;
mod reply;
mod restored;
mod rule_1;
mod rule_2;
mod rule_3;
mod rule_4;
mod rule_5;
mod rule_6;
mod rule_7;
mod rule_8;
mod settings;
mod strategic_patches;
mod tables;
mod windows;
