//! Traces of an API server, for an OpenTelemetry collector (OTLP over gRPC), configured as kube-apiserver's.
//!
//! # Flow
//!
//! [`TracingConfig`] is read from a file. [`Traces`] exports spans in the background. The server starts
//! a [`Span`] for each request ([`RequestStart`]), and runs the request in it. Code below adds spans
//! for its parts by [`Span::child_of_current`], and needs to know nothing of the request.
//!
//! # Guarantees
//!
//! A trusted caller's trace is continued: its `traceparent` decides whether the request is sampled. Any
//! other request starts a new trace with a link to the caller's, and only the configured rate decides. No
//! other caller can force sampling. Source of the rule: `k8s.io/apiserver/pkg/endpoints/filters/traces.go`.
//!
//! Without a current span, [`Span::child_of_current`] reads one thread-local variable and nothing else.
//! Spans that the collector does not take are dropped: at most 2,048 wait, and no request waits for
//! them.

mod config;
mod span;
mod traces;

pub use config::{ConfigError, TracingConfig};
pub use span::{RequestStart, Span};
pub use traces::{StartError, Traces};
