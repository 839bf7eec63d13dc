//! Context of a request, for the strategies.

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Preconditions;
use machinery_audit::AuditAnnotations;
use machinery_auth::UserInfo;
use serde::Serialize;
use serde_json::Value;

use crate::{DeleteOptions, Propagation};

/// Operation of a request, in the words of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// The request changes nothing.
    #[default]
    Read,
    /// It makes an object, or posts to an action.
    Create,
    /// It replaces or patches an object.
    Update,
    /// It deletes an object, or a collection of them.
    Delete,
}

/// Context of one request, for the strategies.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RequestContext {
    /// User of the request.
    pub user: UserInfo,
    /// Operation of the request. An apply of an object that does not exist is a creation.
    pub operation: Operation,
    /// Version in the path of the request, such as `v1`; empty for the hub of the kind.
    pub version: String,
    /// Namespace in the path of the request; empty for cluster-scoped resources and lists over all
    /// namespaces.
    pub namespace: String,
    /// Subresource in the path of the request; empty for the object itself.
    pub subresource: String,
    /// Server time at which the request arrived. Strategies take every time from here.
    pub now: DateTime<Utc>,
    /// True for a dry run: nothing may be stored.
    pub dry_run: bool,
    /// Name under which the caller owns the fields that it writes: the parameter `fieldManager`, or else the
    /// beginning of `user_agent`.
    pub field_manager: String,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// Warnings for the caller, sent as `Warning` headers.
    pub warnings: Warnings,
    /// Annotations of the request's audit events.
    pub audit: AuditAnnotations,
    /// Options that only admission passes on.
    pub(crate) sent: SentOptions,
}

/// Options of a write as the caller sent them, for the webhooks that receive them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentOptions {
    /// True for a PATCH.
    pub(crate) patch: bool,
    /// True when an apply takes the fields of others.
    pub(crate) force: bool,
    /// True when the caller named the field manager.
    pub(crate) names_manager: bool,
    /// The parameter `fieldValidation`.
    pub(crate) field_validation: Option<String>,
}

/// Options of a write, as a webhook receives them.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireOptions<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_manager: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_validation: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    force: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
}

impl RequestContext {
    /// The context of a request by that user at that time, in a namespace or in none.
    pub fn new(user: UserInfo, namespace: impl Into<String>, now: DateTime<Utc>) -> Self {
        Self { user, namespace: namespace.into(), now, ..Self::default() }
    }

    /// Returns the options of a write in the form that a webhook receives: `CreateOptions`, `UpdateOptions`
    /// or `PatchOptions`.
    pub(crate) fn write_options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            _ if self.sent.patch => "PatchOptions",
            _ => "UpdateOptions",
        };
        let options = WireOptions {
            field_manager: self.sent.names_manager.then_some(&self.field_manager),
            field_validation: self.sent.field_validation.as_ref(),
            force: (self.sent.force && kind == "PatchOptions").then_some(true),
            ..self.wire_options(kind)
        };
        serde_json::to_value(options).unwrap_or_default()
    }

    /// Returns the options of a deletion in the form that a webhook receives, as they were sent.
    pub(crate) fn delete_options(&self, given: &DeleteOptions) -> Value {
        let DeleteOptions { uid, resource_version, .. } = given.clone();
        let propagation = given.propagation.filter(|_| given.orphan_dependents.is_none());
        let preconditions = Preconditions { uid, resource_version };
        let options = WireOptions {
            grace_period_seconds: given.grace_period_seconds,
            orphan_dependents: given.orphan_dependents,
            propagation_policy: propagation.map(|propagation| match propagation {
                Propagation::Orphan => "Orphan",
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
            }),
            preconditions: Some(preconditions).filter(|given| *given != Preconditions::default()),
            ..self.wire_options("DeleteOptions")
        };
        serde_json::to_value(options).unwrap_or_default()
    }

    fn wire_options(&self, kind: &'static str) -> WireOptions<'_> {
        let dry_run = self.dry_run.then_some(["All"]);
        WireOptions { kind, api_version: "meta.k8s.io/v1", dry_run, ..WireOptions::default() }
    }

    /// The same request as a creation.
    pub(crate) fn creating(&self) -> Self {
        Self { operation: Operation::Create, ..self.clone() }
    }
}

/// Maximum number of warnings. More than fit the headers of a reply are of no use.
const MOST_WARNINGS: usize = 64;

/// Warnings for the caller, in the order in which they were given, without repetition. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a warning unless it was given before, or there are 64.
    pub fn add(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MOST_WARNINGS && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// The warnings so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_warned_once_of_each_thing_and_of_no_more_than_the_headers_hold() {
        let warnings = Warnings::default();
        for number in 0..200_000 {
            warnings.add(format!("odd: {}", number / 2));
        }
        let all = warnings.all();
        assert_eq!(all.len(), MOST_WARNINGS);
        assert_eq!(all.get(1).map(String::as_str), Some("odd: 1"));
    }
}
