//! Discovery documents and OpenAPI v2 and v3, from the resources of a server.
//!
//! Pure: a description of what is served goes in, documents come out. [`Documents`] makes them all once and finds
//! them by path.

mod document;
mod documents;
mod error;
mod served;

pub use document::{Document, JSON};
pub use documents::{Documents, Info};
pub use error::DocumentError;
pub use served::{GroupVersion, ServedGroup, ServedResource, ServedSubresource, ServedVersion};
