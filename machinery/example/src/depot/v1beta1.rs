//! Depots as clients of v1beta1 see them: the town is a city, and there are no chargers.

use machinery_server::kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

kind! {
    /// Place at which vehicles stand.
    pub struct Depot in "example.machinery.dev", "v1beta1", "depots", Namespaced {
        /// Desired state.
        pub spec: DepotSpec,
    }
}

/// Desired state of a depot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DepotSpec {
    /// City of the depot.
    pub city: String,
    /// Number of vehicles that can stand in it.
    #[schemars(range(min = 1))]
    pub bays: i32,
}
