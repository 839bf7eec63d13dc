//! Discovery documents and OpenAPI v2 and v3, from the resources of a server.
//!
//! Pure: a description of what is served goes in, documents come out. [`Documents`] makes them all once and
//! finds them by path.
//!
//! # Flow
//!
//! The schemas of the kinds, as schemars makes them, become definitions under Kubernetes' names; the verbs
//! become paths and operations; both are written as OpenAPI v3, one document for each group and version, and
//! as v2.
//!
//! # Caveats
//!
//! OpenAPI as Kubernetes reads it says less than JSON Schema. What a schema cannot say without `oneOf` is
//! widened to the union of the alternatives; what has no union is an error, so that no client reads a wrong
//! document.

mod accept;
mod aggregated;
mod alternatives;
mod definitions;
mod discovery;
mod document;
mod documents;
mod error;
#[cfg(test)]
mod fixture;
#[doc(hidden)]
pub mod fuzzing;
mod keywords;
mod operations;
mod parameters;
mod schema;
mod served;
mod standard;
mod structure;
mod v2;
mod v3;
mod walk;
mod words;

pub use aggregated::{DiscoveryVersion, api_group_discovery_list};
pub use discovery::{api_group, api_group_list, api_resource_list};
pub use document::{Document, JSON};
pub use documents::{Documents, Info};
pub use error::DocumentError;
pub use operations::patch_types;
pub use served::{GroupVersion, ServedGroup, ServedResource, ServedSubresource, ServedVersion};
pub use structure::Structure;
pub use v2::openapi_v2;
pub use v3::{openapi_v3, openapi_v3_index};

/// A JSON object.
type Object = serde_json::Map<String, serde_json::Value>;

#[cfg(test)]
mod tests;
