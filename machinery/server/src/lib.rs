//! An aggregated API server for Kubernetes: HTTP verbs, registry, watch cache, discovery, OpenAPI, admission.
//!
//! A server is made of resources. A stored resource is a [`Strategy`]: the rules of one kind, in the hooks that
//! k8s.io/apiserver has. The [`Registry`] carries them out on a [`Store`](machinery_storage::Store). A [`View`] shows
//! callers what they may see of a stored resource; an [`Action`] is a subresource that is posted to.
//!
//! # Flow
//!
//! The way of a request is the order of the folders: `http` (what is it for, who asks, may they) -> `admission` (is
//! there such a namespace) -> `resource` (bytes to types) -> `registry` (the verb, by the strategy's hooks, as one
//! transaction) -> the store -> its watch -> `cache` (index and ring of changes) -> lists and watches -> `http` again, which
//! renders objects, lists, tables and events. What fails anywhere is an [`ApiError`], which [`status()`] alone
//! turns into a `metav1.Status`.
//!
//! # Guarantees
//!
//! Those of [`Registry`] for writes. A list without a resourceVersion shows every write that was answered before it was
//! asked for. A watch reports every change after its start once and in order, or ends; a reader that is too slow is
//! ended and holds up nobody.
//!
//! # What is left out
//!
//! Admission but that of namespaces: the kube-apiserver runs no admission webhooks, admission policies or resource quota for what it
//! proxies to an aggregated API, and neither does this server. What must hold is a rule of the kind's [`Strategy`].
//!
//! Server-side apply: its patch type gets its place in `resource/body.rs`, its merge in `machinery-merge`; until then
//! `managedFields` are not kept. Strategic merge patches, as for custom resources. Several versions of a kind.

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
pub use registry::{DeleteOptions, ObjectLimits, Propagation, Registry};
pub use server::{BuildError, Server, ServerBuilder, ServerOptions};
pub use status::{Target, status};
pub use stored::Stored;
pub use strategy::{ClaimConflict, Column, DeleteContext, KindInfo, Object, Strategy, Verb};
pub use view::View;
