//! An aggregated API server for Kubernetes: HTTP verbs, registry, watch cache, discovery, OpenAPI, admission.
//!
//! A server is made of resources. A stored resource is a [`Strategy`]: the rules of one kind, in the hooks that
//! k8s.io/apiserver has. The `Registry` carries them out on a [`Store`](machinery_storage::Store).

mod context;
mod error;
mod strategy;

pub use context::{RequestContext, Warnings};
pub use error::{ApiError, Cause, Reason};
pub use strategy::{ClaimConflict, Column, DeleteContext, KindInfo, Object, Strategy, Verb};
