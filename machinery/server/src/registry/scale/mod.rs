//! Subresource `scale`: the number of replicas of an object, as a `Scale` of `autoscaling/v1`.
//!
//! A kind declares it by [`Strategy::scale`](crate::Strategy::scale). A write of it is an update of the
//! object: the rules for updates apply. Source of the rules: `ScaleREST` in
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresource/etcd.go`.

mod admit;
mod document;
mod owners;
mod paths;
mod update;

pub use self::paths::ScalePaths;
pub(super) use self::paths::replicas_paths;
pub(crate) use self::update::ScaleChange;
