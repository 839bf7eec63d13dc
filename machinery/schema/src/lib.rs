//! Shape of a kind, as far as merging and ownership need it: scalars, lists and maps, their merge keys,
//! default values of keys and atomicity.
//!
//! [`Schema`] is made once from OpenAPI v3 definitions and then shared. It is immutable and cheap to clone.
//! Recursive definitions are supported: references between definitions become [`Node`]s of one table.
//!
//! # Rules
//!
//! The rules are those of kube-apiserver (`k8s.io/kube-openapi/pkg/schemaconv`):
//!
//! - a list without `x-kubernetes-list-type` is atomic;
//! - a map or struct without `x-kubernetes-map-type` is granular;
//! - a schema without `type` accepts anything, such as `x-kubernetes-int-or-string`;
//! - an object without `properties` and `additionalProperties` is free-form: its maps are granular and its
//!   lists atomic;
//! - `x-kubernetes-preserve-unknown-fields` makes the unknown fields of an object free-form, and those of the
//!   objects that are written inside it.
//!
//! # Differences
//!
//! - `ObjectMeta` gets the list types that Kubernetes gives it when its definition lacks them.
//! - The root and an embedded resource (`x-kubernetes-embedded-resource`) get `apiVersion`, `kind` and
//!   `metadata`, as kube-apiserver does for custom resources.
//! - Of `x-kubernetes-patch-strategy`, only `merge` of lists is read.

mod atom;
mod convert;
mod error;
mod object_meta;
mod schema;

pub use atom::{Atom, Field, List, ListKind, ListPatch, Map, Node, Scalar};
pub use error::SchemaError;
pub use schema::Schema;

#[cfg(test)]
mod tests;
