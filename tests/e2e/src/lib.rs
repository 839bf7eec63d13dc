//! End-to-end scenarios on a real control plane.
