//! The options of lists and watches. Source of the rules: "Resource versions" in Kubernetes' API concepts,
//! and
//! `k8s.io/apimachinery/pkg/apis/meta/internalversion/validation`.

use std::time::Duration;

use machinery_validation::{FieldError, FieldPath};
use rand::RngExt;

use super::{invalid_options, params::Params};
use crate::{
    ApiError, Reason,
    registry::{Continue, Selection, Version, WatchFrom},
    resource::{GetVersion, Query, Resource},
    selector::{FieldSelector, LabelSelector},
};

/// Minimum duration of a watch without `timeoutSeconds`. The maximum is twice as long, so that watches that
/// began together do not end together.
const WATCH_TIME: Duration = Duration::from_mins(30);
/// Maximum duration of a watch, whatever `timeoutSeconds` says.
const LONGEST_WATCH: Duration = Duration::from_hours(24);

/// The options of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    pub(crate) query: Query<WatchFrom>,
    /// True if the caller accepts bookmarks.
    pub(crate) bookmarks: bool,
    /// True if a bookmark marks the end of the state at the start.
    pub(crate) announce_initial: bool,
    /// True for a watch-list: the caller asks for the state and for the mark of its end.
    pub(crate) list: bool,
    /// Duration of the watch.
    pub(crate) time: Duration,
}

/// The options of a list, or of the deletion of a collection.
pub(crate) fn list_options(params: &Params, resource: &dyn Resource) -> Result<Query<Version>, ApiError> {
    // As upstream: first what cannot be read, then what is not allowed.
    let limit = limit(params)?;
    params.number("timeoutSeconds")?;
    let selection = selection(params)?;
    let version = params.get("resourceVersion").filter(|version| !version.is_empty());
    let version_match = params.get("resourceVersionMatch");
    let token = params.get("continue");
    let field = FieldPath::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if let Some(version_match) = version_match {
        if version.is_none() {
            let problem = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(&field, problem));
        }
        if token.is_some() {
            let problem = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(&field, problem));
        }
        match version_match {
            "Exact" if version == Some("0") => {
                let problem = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(&field, problem));
            }
            "Exact" | "NotOlderThan" => {}
            other => errors.push(FieldError::not_supported(&field, other, &["Exact", "NotOlderThan", ""])),
        }
    }
    if params.switch("sendInitialEvents").is_some() {
        let field = FieldPath::new("sendInitialEvents");
        errors.push(FieldError::forbidden(&field, "sendInitialEvents is forbidden for list"));
    }
    if !errors.is_empty() {
        return Err(invalid_options("ListOptions", &errors));
    }
    check_fields(&selection, resource)?;
    let revision = params.revision()?;
    let version = match (token, revision, version_match) {
        (Some(_), Some(revision), _) if revision > 0 => {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::status(Reason::BadRequest, message));
        }
        (Some(token), ..) => Version::Continue(Continue::parse(token)?),
        (None, None, _) => Version::Newest,
        (None, Some(0), _) => Version::Any,
        (None, Some(revision), Some("Exact")) => Version::Exactly(revision),
        // As upstream: a limit alone asks for pages, and these show one revision.
        (None, Some(revision), None) if limit > 0 => Version::Exactly(revision),
        (None, Some(revision), _) => Version::AtLeast(revision),
    };
    Ok(Query { version, selection, limit, skips_unreadable: false })
}

/// The options of a watch.
pub(crate) fn watch_options(params: &Params, resource: &dyn Resource) -> Result<WatchOptions, ApiError> {
    let selection = selection(params)?;
    let version_match = params.get("resourceVersionMatch");
    let initial = params.switch("sendInitialEvents");
    let bookmarks = params.is_true("allowWatchBookmarks");
    let field = FieldPath::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if initial.is_some() && version_match != Some("NotOlderThan") {
        let problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(&field, problem));
    }
    if let Some(version_match) = version_match {
        if initial.is_none() {
            let problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&field, problem));
        }
        if version_match != "NotOlderThan" {
            errors.push(FieldError::not_supported(&field, version_match, &["NotOlderThan"]));
        }
    }
    // As upstream, a watch from any version counts as one with a match.
    let from_any = initial.is_none() && matches!(params.get("resourceVersion"), None | Some("" | "0"));
    if params.get("continue").is_some() && (version_match.is_some() || from_any) {
        let problem = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(&field, problem));
    }
    if !errors.is_empty() {
        return Err(invalid_options("ListOptions", &errors));
    }
    check_fields(&selection, resource)?;
    let revision = params.revision()?;
    let version = match (initial, revision) {
        (Some(false), None | Some(0)) => WatchFrom::Now,
        (Some(true), Some(revision)) if revision > 0 => WatchFrom::AtLeast(revision),
        (Some(true) | None, None) => WatchFrom::Newest,
        (_, Some(0)) => WatchFrom::Any,
        (_, Some(revision)) => WatchFrom::After(revision),
    };
    let time = match params.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok()) {
        None | Some(0) => WATCH_TIME.mul_f64(rand::rng().random_range(1.0..2.0)),
        Some(seconds) => Duration::from_secs(seconds).min(LONGEST_WATCH),
    };
    // A watch has no limit, but an unreadable one is an error for it, too.
    limit(params)?;
    let query = Query { version, selection, limit: 0, skips_unreadable: false };
    // As upstream (`SetListOptionsDefaults`): a watch from no revision or from 0 starts with the state, too.
    let starts_with_state = initial.unwrap_or(matches!(version, WatchFrom::Newest | WatchFrom::Any));
    let announce_initial = starts_with_state && bookmarks;
    Ok(WatchOptions { query, bookmarks, announce_initial, list: initial == Some(true) && bookmarks, time })
}

/// The options of a single read.
pub(crate) fn get_options(params: &Params) -> Result<GetVersion, ApiError> {
    Ok(params.revision()?.map_or(GetVersion::Newest, GetVersion::AtLeast))
}

fn limit(params: &Params) -> Result<usize, ApiError> {
    Ok(params.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0))
}

fn selection(params: &Params) -> Result<Selection, ApiError> {
    let refuse = |name: &str, problem: String| {
        ApiError::status(Reason::BadRequest, format!("unable to parse {name}: {problem}"))
    };
    let labels = LabelSelector::parse(params.get("labelSelector").unwrap_or_default())
        .map_err(|problem| refuse("labelSelector", problem))?;
    let fields = FieldSelector::parse(params.get("fieldSelector").unwrap_or_default())
        .map_err(|problem| refuse("fieldSelector", problem))?;
    Ok(Selection { labels, fields })
}

/// Refuses a selector of a field that the resource does not support.
fn check_fields(selection: &Selection, resource: &dyn Resource) -> Result<(), ApiError> {
    let known = |field: &str| match field {
        "metadata.name" => true,
        "metadata.namespace" => resource.info().namespaced,
        other => resource.is_selectable(other),
    };
    if let Some(unknown) = selection.fields.fields().find(|field| !known(field)) {
        return Err(ApiError::status(Reason::BadRequest, format!("field label not supported: {unknown}")));
    }
    Ok(())
}
