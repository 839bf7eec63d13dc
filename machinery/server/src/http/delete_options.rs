//! `metav1.DeleteOptions`, from the body or the query.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions as Wire, Preconditions};
use machinery_merge::{Strictness, decode, decode_yaml};
use machinery_validation::{FieldError, FieldPath};

use super::{invalid_options, params, write_options::WriteOptions};
use crate::{ApiError, DeleteOptions, Propagation, Reason, protobuf};

use params::Params;

/// Option that deletes an object that cannot be decoded.
const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Deletion that the caller asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestedDeletion {
    pub(crate) options: DeleteOptions,
    /// Options that the deletion shares with other writes.
    pub(crate) write: WriteOptions,
    /// True if the caller gave `orphanDependents: false`. As upstream, the reply is then a 202 while the
    /// object waits for its finalizers.
    pub(crate) accepted_when_pending: bool,
    /// True if the caller deletes an object that cannot be decoded.
    pub(crate) ignore_read_error: bool,
}

/// Syntax of a body with options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
    Protobuf,
}

/// Reads the options from a body, or from the query if the body is empty. As upstream, `uid` and
/// `resourceVersion` of a query are preconditions (`Convert_url_Values_To_v1_DeleteOptions`). For a
/// `collection` they select the list.
pub(crate) fn delete_options(
    body: &[u8],
    syntax: Syntax,
    params: &Params,
    collection: bool,
) -> Result<RequestedDeletion, ApiError> {
    let wire: Wire = if body.is_empty() {
        Wire {
            grace_period_seconds: params.number("gracePeriodSeconds")?,
            ignore_store_read_error_with_cluster_breaking_potential: params.switch(IGNORE_READ_ERROR),
            orphan_dependents: params.switch("orphanDependents"),
            propagation_policy: params.get("propagationPolicy").map(str::to_owned),
            preconditions: (!collection).then(|| Preconditions {
                uid: params.get("uid").map(str::to_owned),
                resource_version: params.get("resourceVersion").map(str::to_owned),
            }),
            ..Wire::default()
        }
    } else {
        let decoded = match syntax {
            Syntax::Json => {
                decode(body, Strictness::Ignore).map(|read| read.value).map_err(|e| e.to_string())
            }
            Syntax::Yaml => {
                decode_yaml(body, Strictness::Ignore).map(|read| read.value).map_err(|e| e.to_string())
            }
            Syntax::Protobuf => protobuf::delete_options(body).map_err(|e| e.to_string()),
        };
        decoded.map_err(|message| ApiError::status(Reason::BadRequest, message))?
    };
    if wire.kind.as_deref().is_some_and(|kind| !kind.is_empty() && kind != "DeleteOptions") {
        let message = "decoded object cannot be converted to DeleteOptions";
        return Err(ApiError::status(Reason::BadRequest, message));
    }
    let given: Vec<&str> = wire.dry_run.iter().flatten().map(String::as_str).collect();
    let dry_run = params::dry_run(&given).and_then(|given| Ok(given || params.dry_run()?));
    let mut errors = propagation_errors(wire.orphan_dependents, wire.propagation_policy.as_deref());
    let dry_run = dry_run.map_err(|error| errors.push(error)).unwrap_or_default();
    if !errors.is_empty() {
        return Err(invalid_options("DeleteOptions", &errors));
    }
    let ignore_read_error = wire.ignore_store_read_error_with_cluster_breaking_potential == Some(true);
    if ignore_read_error {
        check_ignore_read_error(&wire, collection)?;
    }
    let preconditions = wire.preconditions.unwrap_or_default();
    let options = DeleteOptions {
        uid: preconditions.uid,
        resource_version: preconditions.resource_version,
        propagation: propagation(wire.orphan_dependents, wire.propagation_policy.as_deref()),
        orphan_dependents: wire.orphan_dependents,
        grace_period_seconds: wire.grace_period_seconds,
    };
    let accepted_when_pending = wire.orphan_dependents == Some(false);
    let write = WriteOptions { dry_run, ..WriteOptions::default() };
    Ok(RequestedDeletion { options, write, accepted_when_pending, ignore_read_error })
}

/// Rejects the option where it means nothing. Source of the rules: `ValidateIgnoreStoreReadError` in
/// `k8s.io/apimachinery/pkg/apis/meta/v1/validation`.
fn check_ignore_read_error(wire: &Wire, collection: bool) -> Result<(), ApiError> {
    let preconditions = wire.preconditions.as_ref();
    let preconditions =
        preconditions.is_some_and(|given| given.uid.is_some() || given.resource_version.is_some());
    let beside = [
        (wire.propagation_policy.is_some(), ".propagationPolicy"),
        (wire.orphan_dependents.is_some(), ".orphanDependents"),
        (wire.grace_period_seconds.is_some(), ".gracePeriodSeconds"),
        (preconditions, ".preconditions"),
    ];
    let beside = beside.iter().filter(|(given, _)| *given);
    let mut problems: Vec<String> =
        beside.map(|(_, name)| format!("cannot be set together with {name}")).collect();
    if collection {
        let problem = "is not allowed with DELETECOLLECTION, try again after removing the option";
        problems.push(problem.to_owned());
    }
    let field = FieldPath::new(IGNORE_READ_ERROR);
    let errors: Vec<FieldError> =
        problems.iter().map(|problem| FieldError::invalid(&field, "true", problem)).collect();
    if errors.is_empty() { Ok(()) } else { Err(invalid_options("DeleteOptions", &errors)) }
}

/// Returns all problems of the parameters that say what becomes of the dependents.
fn propagation_errors(orphan: Option<bool>, policy: Option<&str>) -> Vec<FieldError> {
    const POLICIES: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];
    let field = FieldPath::new("propagationPolicy");
    let mut errors = Vec::new();
    let Some(policy) = policy else { return errors };
    if orphan.is_some() {
        let problem = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&field, policy, problem));
    }
    if !["Foreground", "Background", "Orphan"].contains(&policy) {
        errors.push(FieldError::not_supported(&field, policy, &POLICIES));
    }
    errors
}

fn propagation(orphan: Option<bool>, policy: Option<&str>) -> Option<Propagation> {
    match (orphan, policy) {
        (Some(true), _) | (None, Some("Orphan")) => Some(Propagation::Orphan),
        (Some(false), _) | (None, Some("Background")) => Some(Propagation::Background),
        (None, Some("Foreground")) => Some(Propagation::Foreground),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, query: &str) -> Result<RequestedDeletion, ApiError> {
        delete_options(body.as_bytes(), Syntax::Json, &Params::parse(query).expect("a query"), false)
    }

    #[test]
    fn options_come_from_the_body_or_else_the_query() {
        let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground","dryRun":["All"],
            "preconditions":{"uid":"u","resourceVersion":"7"}}"#;
        let read_body = read(body, "propagationPolicy=Orphan").expect("good");
        assert_eq!(read_body.options.propagation, Some(Propagation::Foreground));
        assert_eq!(read_body.options.uid.as_deref(), Some("u"));
        assert_eq!(read_body.options.resource_version.as_deref(), Some("7"));
        assert!(read_body.write.dry_run);
        let read_query = read("", "propagationPolicy=Orphan&dryRun=All").expect("good");
        assert_eq!(read_query.options.propagation, Some(Propagation::Orphan));
        assert!(read_query.write.dry_run);
        let preconditions = read("", "uid=u&resourceVersion=7").expect("good").options;
        assert_eq!(preconditions.uid.as_deref(), Some("u"));
        assert_eq!(preconditions.resource_version.as_deref(), Some("7"));
        let from_body = read("{}", "uid=u").expect("good").options;
        assert_eq!(from_body.uid, None, "a body is all that counts");
        assert!(read(r#"{"orphanDependents":false}"#, "").expect("good").accepted_when_pending);
        assert_eq!(read("", "").expect("good"), RequestedDeletion::default());
    }

    #[test]
    fn bad_options_are_refused() {
        for (body, reason) in [
            (r#"{"propagationPolicy":"Never"}"#, Reason::Invalid),
            (r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#, Reason::Invalid),
            (r#"{"dryRun":["Some"]}"#, Reason::Invalid),
            (r#"{"kind":"Pod"}"#, Reason::BadRequest),
            ("{", Reason::BadRequest),
        ] {
            assert_eq!(read(body, "").map_err(|error| error.reason()), Err(reason), "{body}");
        }
        let error = read("", "orphanDependents=true&propagationPolicy=Nobody&dryRun=x").expect_err("bad");
        let error = error.to_string();
        for problem in ["cannot be both set", "Unsupported value: \"Nobody\"", "dryRun: Unsupported value"] {
            assert!(error.contains(problem), "{problem} in {error}");
        }
    }
}
