//! Tests of the machinery on a real etcd and a real kube-apiserver.
//!
//! They are here, and not beside the code, because the crates of the machinery depend on nothing outside of
//! it.
