//! An aggregated API server for Kubernetes: HTTP verbs, registry, watch cache, discovery, OpenAPI, admission.
//!
//! A server consists of resources. A stored resource is a [`Strategy`]: the rules of one kind, in the hooks
//! of k8s.io/apiserver. The [`Registry`] carries them out on a [`Store`](machinery_storage::Store). A
//! [`View`] shows each caller its projection of a stored resource. An [`Action`] is a subresource that
//! supports only POST.
//!
//! # Flow
//!
//! A request passes the folders in this order. `http` reads it, authenticates and authorises it. `admission`
//! checks the namespace. `resource` decodes the bytes. `registry` carries out the verb by the strategy's
//! hooks, as one transaction of the store. The watch of the store updates the `cache` (index and ring of
//! changes), which serves lists and watches. `http` renders objects, lists, tables and events. Every failure
//! is an [`ApiError`], which only [`status()`] turns into a `metav1.Status`.
//!
//! # Guarantees
//!
//! Those of [`Registry`] for writes. A list without a resourceVersion shows every write that was answered
//! before the request. A watch reports every change after its start once and in order, or ends. A client that
//! reads too slowly is ended and delays no other. No caller can exclude another: `http` has a limit with
//! shares for everything that requests use, and a registry limits the objects of a namespace
//! ([`ObjectLimits`]).
//!
//! # What is left out
//!
//! Plugins of admission: kube-apiserver runs no admission webhooks, admission policies or resource quota for
//! requests that it proxies to an aggregated API. `machinery-admission` has them, behind the trait
//! [`Admission`]. Invariants are rules of the kind's [`Strategy`], which no plugin can change.
//!
//! Strategic merge patches, as for custom resources. Several versions of a kind.

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
mod structure;
mod table;
mod view;

pub use action::Action;
pub use admission::{
    Admission, AdmissionAttributes, Interception, KubeNamespaces, MutableObject, NamespaceState, Namespaces,
};
pub use context::{Operation, RequestContext, Warnings};
pub use error::{ApiError, Cause, Reason};
pub use metrics::Metrics;
pub use registry::{DeleteOptions, ObjectLimits, Propagation, Registry};
pub use server::{BuildError, Server, ServerBuilder, ServerOptions};
pub use status::{Target, status};
pub use stored::Stored;
pub use strategy::{ClaimConflict, Column, DeleteContext, KindInfo, Object, Strategy, Verb};
pub use view::View;
