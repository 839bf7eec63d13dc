//! Admission: checks between the decoding of a new object and its strategy, and the seam for plugins.

mod interception;
mod kube_namespaces;
mod lifecycle;
mod one_form;

use async_trait::async_trait;

pub use interception::{Admission, AdmissionAttributes, Interception, MutableObject, ObjectConverter};
pub use kube_namespaces::KubeNamespaces;
pub(crate) use lifecycle::admit_create;
pub(crate) use one_form::OneForm;

use crate::ApiError;

/// The state of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    /// It does not exist.
    Absent,
    /// Objects can be created in it.
    Active,
    /// It is being deleted: nothing is created in it any more.
    Terminating,
}

/// Source of the states of the cluster's namespaces.
#[async_trait]
pub trait Namespaces: Send + Sync + 'static {
    /// Returns the state of a namespace. A namespace that was created a moment ago is found.
    async fn state(&self, name: &str) -> Result<NamespaceState, ApiError>;

    /// Returns true once the watch of the namespaces has started, for `/readyz`.
    fn has_started(&self) -> bool {
        true
    }
}

/// Treats every namespace as active: for servers without a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryNamespace;

#[async_trait]
impl Namespaces for EveryNamespace {
    async fn state(&self, _: &str) -> Result<NamespaceState, ApiError> {
        Ok(NamespaceState::Active)
    }
}
