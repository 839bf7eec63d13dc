//! Patches of Kubernetes objects and strict decoding.
