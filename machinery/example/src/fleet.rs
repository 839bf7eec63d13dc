//! The kind Fleet.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::LocalObjectReference,
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use machinery_server::kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::FleetStatus;

kind! {
    /// Vehicles of one depot.
    pub struct Fleet in "example.machinery.dev", "v1", "fleets", Namespaced {
        /// Desired state.
        pub spec: FleetSpec,
        /// Observed state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<FleetStatus>,
    }
}

/// Desired state of a fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetSpec {
    /// Depot of the vehicles.
    #[schemars(length(min = 1, max = 63))]
    pub depot: String,
    /// Number of vehicles on the road.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000), extend("default" = 1))]
    pub replicas: Option<i32>,
    /// True when no vehicle leaves the depot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Hourly rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Total distance in metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odometer: Option<i64>,
    /// Short name on the vehicles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Z]{1,4}$"))]
    pub code: Option<String>,
    /// Order in which vehicles are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Rolling"))]
    pub replacement: Option<Replacement>,
    /// Number or percentage of vehicles that may be in repair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Volume of a tank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tank: Option<Quantity>,
    /// Colours of the parts of a vehicle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<BTreeMap<String, String>>,
    /// Driver of all vehicles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// Position of the depot. It is written as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub position: Option<Coordinates>,
    /// The vehicles, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub vehicles: Option<Vec<Vehicle>>,
    /// The stops, by town and platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["town", "platform"]))]
    pub stops: Option<Vec<Stop>>,
    /// Zones in which the fleet may drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub zones: Option<Vec<String>>,
    /// Towns in the order of the route. It is written as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub route: Option<Vec<String>>,
    /// Days of the year without service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holidays: Option<Vec<i32>>,
    /// Selector of the passengers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passengers: Option<LabelSelector>,
    /// Secret with the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<LocalObjectReference>,
    /// Origin of the vehicles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Ownership>,
}

/// Order in which vehicles are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Replacement {
    /// One after another.
    Rolling,
    /// All at once.
    Recreate,
}

/// A driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Driver {
    /// Name of the driver.
    pub name: String,
    /// Licence of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<License>,
}

/// A licence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct License {
    /// Class of vehicles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "B"))]
    pub class: Option<String>,
    /// Points that are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<i32>,
}

/// A position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coordinates {
    /// Degrees to the east.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub east: Option<i32>,
    /// Degrees to the north.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub north: Option<i32>,
}

/// A vehicle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vehicle {
    /// Name of the vehicle.
    pub name: String,
    /// Number of seats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 4))]
    pub seats: Option<i32>,
    /// Colour of the vehicle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colour: Option<String>,
}

/// A stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Town of the stop.
    pub town: String,
    /// Platform in the town.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1))]
    pub platform: Option<i32>,
    /// Minutes that a vehicle waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<i32>,
}

/// Origin of the vehicles: one field at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(has(self.lease) && has(self.purchase))",
    "message": "at most one of lease and purchase may be set"
}]))]
pub struct Ownership {
    /// The vehicles are leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The vehicles were bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purchase: Option<Purchase>,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// Owner of the vehicles.
    pub company: String,
}

/// A purchase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Purchase {
    /// Price of a vehicle.
    pub price: i64,
}
