//! An aggregated API server for fleets of vehicles: the example of the machinery.
//!
//! The kind [`Depot`] has two versions. The kind [`Fleet`] has one field of each shape that an API has. The
//! conformance tests serve it beside a custom resource of the same schema.
//!
//! # Flow
//!
//! [`FleetStrategy`] has the rules of the kind: defaults, validation, columns, selectable fields. [`server`]
//! makes a server of it. [`run`] serves it behind a kube-apiserver.

mod depot;
mod fleet;
mod options;
mod serve;
mod status;
mod strategy;
mod table;
mod validation;

pub use depot::{Depot, DepotSpec, DepotStrategy, v1beta1};
pub use fleet::{
    Coordinates, Driver, Fleet, FleetSpec, Lease, License, Ownership, Purchase, Replacement, Stop, Vehicle,
};
pub use options::Options;
pub use serve::{Parts, run, server};
pub use status::FleetStatus;
pub use strategy::FleetStrategy;
