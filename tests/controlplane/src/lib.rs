//! Starts a real Kubernetes control plane for tests.
