//! An aggregated API server for Kubernetes: HTTP verbs, registry, watch cache, discovery, OpenAPI, admission.
//!
//! A server consists of resources. A stored resource is a [`Strategy`]: the rules of one kind, in the hooks
//! of k8s.io/apiserver. The [`Registry`] carries them out on a [`Store`](machinery_storage::Store). A
//! [`View`] shows each caller its projection of a stored resource. An [`Action`] is a subresource that
//! supports only POST. A kind that names the paths of its replicas ([`Strategy::scale`]) has the subresource
//! `scale`.
//!
//! A kind can have several versions ([`ServedVersion`]). Requests are converted to its hub, the type of the
//! strategy, before its rules apply.
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
//! Plugins of admission: kube-apiserver runs no admission webhooks, admission policies or resource quota for
//! requests that it proxies to an aggregated API. `machinery-admission` has them, behind the trait
//! [`Admission`], but for MutatingAdmissionPolicy. Invariants are rules of the kind's [`Strategy`], which no
//! plugin can change.
//!
//! # Transports
//!
//! HTTP/1.1 with JSON and YAML; gzip for large replies and for the state of a watch-list; watches over
//! WebSocket. In protobuf there are only `DeleteOptions`, metadata (`PartialObjectMetadata`) and failures, as
//! for custom resources. HTTP/2 is left out, because a watcher that left would not be noticed there. CBOR is
//! left out.

mod action;
mod admission;
mod audit;
mod cache;
mod context;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod item;
mod kind;
mod metrics;
mod protobuf;
mod registry;
mod resource;
mod resource_name;
mod selector;
mod server;
mod signal;
mod status;
mod stored;
mod strategy;
mod structure;
mod table;
mod version;
mod view;

pub use action::Action;
pub use admission::{
    Admission, AdmissionAttributes, EveryNamespace, Interception, KubeNamespaces, MutableObject,
    NamespaceState, Namespaces, ObjectConverter,
};
pub use context::{Operation, RequestContext, Warnings};
pub use error::{ApiError, Cause, Reason};
pub use kind::{ApiVersion, Kind};
pub use machinery_audit::AuditAnnotations;
pub use metrics::Metrics;
pub use registry::{DeleteOptions, ObjectLimits, Propagation, Registry, ScalePaths};
pub use server::{BuildError, Server, ServerBuilder, ServerOptions};
pub use signal::shutdown_signal;
pub use status::{Target, status};
pub use stored::Stored;
pub use strategy::{ClaimConflict, Column, DeleteContext, KindInfo, Object, Removable, Strategy, Verb};
pub use version::ServedVersion;
pub use view::View;

/// Crates that the expansion of [`kind!`] names.
#[doc(hidden)]
pub mod expansion {
    pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    pub use kube;
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}
