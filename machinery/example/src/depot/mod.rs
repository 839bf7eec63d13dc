//! The kind Depot, which has two versions.

mod conversion;
mod strategy;
pub mod v1beta1;

use machinery_server::kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use strategy::DepotStrategy;

kind! {
    /// Place at which vehicles stand.
    pub struct Depot in "example.machinery.dev", "v1", "depots", Namespaced {
        /// Desired state.
        pub spec: DepotSpec,
    }
}

/// Desired state of a depot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DepotSpec {
    /// Town of the depot.
    pub town: String,
    /// Number of vehicles that can stand in it.
    #[schemars(range(min = 1))]
    pub bays: i32,
    /// Number of bays at which a vehicle can be charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chargers: Option<i32>,
}
