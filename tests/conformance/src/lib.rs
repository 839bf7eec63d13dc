//! Conformance: the example kind of the machinery, compared with a custom resource of the same schema.
//!
//! # Flow
//!
//! [`Platform`] serves the kind Fleet twice behind one kube-apiserver: by the machinery, aggregated, and as a
//! custom resource whose schema is made from the OpenAPI document of the former. [`sequence`] makes a
//! sequence of requests from a seed. [`Trial`] sends each request to both sides and compares the
//! replies, without times, UIDs and resourceVersions. Places that differ must be in
//! [`differences`], the only list of intended differences. A sequence that fails is shortened by leaving out
//! requests.

mod cases;
mod definition;
mod differences;
mod generate;
mod mismatch;
mod platform;
mod reply;
mod request;
mod side;
mod trial;

pub use cases::{Case, cases};
pub use definition::definition;
pub use differences::{Difference, Exchange, differences, document};
pub use generate::sequence;
pub use mismatch::{Mismatch, mismatches};
pub use platform::Platform;
pub use reply::Reply;
pub use request::Request;
pub use side::Side;
pub use trial::{Failure, Outcome, Trial};

/// Group of the example kind.
pub(crate) const GROUP: &str = "example.machinery.dev";
/// Group of the custom resource. It has as many letters, so that sizes are equal.
pub(crate) const ORACLE_GROUP: &str = "conform.machinery.dev";
