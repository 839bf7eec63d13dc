//! Context of a request, for the strategies.

use std::sync::Mutex;

use chrono::{DateTime, Utc};
use machinery_auth::UserInfo;

/// Context of one request, for the strategies.
#[derive(Debug)]
pub struct RequestContext {
    /// User of the request.
    pub user: UserInfo,
    /// Namespace in the path of the request; empty for cluster-scoped resources and lists over all
    /// namespaces.
    pub namespace: String,
    /// Server time at which the request arrived. Strategies take every time from here.
    pub now: DateTime<Utc>,
    /// True for a dry run: nothing may be stored.
    pub dry_run: bool,
    /// Warnings for the caller, sent as `Warning` headers.
    pub warnings: Warnings,
}

/// Warnings for the caller, in the order in which they were given, without repetition.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning unless it was given before.
    pub fn add(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// The warnings so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}
