//! The evacuation API server: one strategy per kind.
