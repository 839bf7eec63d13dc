//! An aggregated API server for Kubernetes: HTTP verbs, registry, watch cache, discovery, OpenAPI, admission.
//!
//! A server is made of resources. A stored resource is a [`Strategy`]: the rules of one kind, in the hooks that
//! k8s.io/apiserver has. The [`Registry`] carries them out on a [`Store`](machinery_storage::Store).

mod action;
mod admission;
mod cache;
mod context;
mod error;
mod http;
mod metrics;
mod registry;
mod resource;
mod resource_name;
mod selector;
mod server;
mod status;
mod stored;
mod strategy;
mod table;
mod view;

pub use action::Action;
pub use admission::{KubeNamespaces, NamespaceState, Namespaces};
pub use context::{RequestContext, Warnings};
pub use error::{ApiError, Cause, Reason};
pub use metrics::Metrics;
pub use registry::{DeleteOptions, Propagation, Registry};
pub use server::{BuildError, Server, ServerBuilder, ServerOptions};
pub use status::{Target, status};
pub use stored::Stored;
pub use strategy::{ClaimConflict, Column, DeleteContext, KindInfo, Object, Strategy, Verb};
pub use view::View;
