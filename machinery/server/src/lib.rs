//! An aggregated API server for Kubernetes: HTTP verbs, registry, watch cache, discovery, OpenAPI, admission.
//!
//! A server consists of resources. A stored resource is a [`Strategy`]: the rules of one kind, in the hooks
//! of k8s.io/apiserver. The [`Registry`] carries them out on a [`Store`](machinery_storage::Store). A
//! [`View`] shows each caller its projection of a stored resource. An [`Action`] is a subresource that
//! supports only POST.
//!
//! # Flow
//!
//! A request passes the folders in this order. `http` reads it, authenticates it, lets it wait for its
//! turn, and authorises it. `admission` checks the namespace. `resource` decodes the bytes. `registry`
//! carries out the verb by the strategy's hooks, as one transaction of the store. The watch of the
//! store updates the `cache` (index and ring of changes), which serves lists and watches. `http`
//! renders objects, lists, tables and events. Every failure is an [`ApiError`], which only [`status()`]
//! turns into a `metav1.Status`. `audit` records requests (`machinery-audit`), and `http` and the
//! store's calls are traced (`machinery-tracing`), where the builder is told so.
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
//! Admission except that of namespaces: kube-apiserver runs no admission webhooks, admission policies or
//! resource quota for requests that it proxies to an aggregated API. Neither does this server. Invariants are
//! rules of the kind's [`Strategy`].
//!
//! Strategic merge patches, as for custom resources. Several versions of a kind.

mod action;
mod admission;
mod audit;
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
pub use admission::{KubeNamespaces, NamespaceState, Namespaces};
pub use context::{Operation, RequestContext, Warnings};
pub use error::{ApiError, Cause, Reason};
pub use machinery_audit::AuditAnnotations;
pub use metrics::Metrics;
pub use registry::{DeleteOptions, ObjectLimits, Propagation, Registry};
pub use server::{BuildError, Server, ServerBuilder, ServerOptions};
pub use status::{Target, status};
pub use stored::Stored;
pub use strategy::{ClaimConflict, Column, DeleteContext, KindInfo, Object, Strategy, Verb};
pub use view::View;
