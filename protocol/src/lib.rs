//! The rules between objects: what may change, and what to do next.
