//! In which form a caller wants its answer. Source of the rules:
//! `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`.

use super::params::Params;
use crate::{ApiError, Reason};

/// In which form objects are sent. All are JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects themselves.
    Object,
    /// Their metadata: `PartialObjectMetadata` or a list of it.
    Metadata,
    /// A `Table`.
    Table(IncludeObject),
}

/// What a row of a table holds besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    Metadata,
    /// The object.
    Object,
}

/// Reads the header `Accept`, and for tables the parameter `includeObject`.
///
/// The first range that can be served wins, the one with the highest `q` first; ranges that cannot be served, such as
/// protobuf, are passed over.
///
/// # Errors
///
/// `NotAcceptable` when there is none.
pub(crate) fn negotiate(accept: &str, params: &Params) -> Result<Form, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Form::Object);
    }
    let mut ranges: Vec<(f32, &str)> = accept.split(',').map(|range| (quality(range), range)).collect();
    // Stable: of equal ones, the first in the header comes first.
    ranges.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for (quality, range) in ranges {
        if quality > 0.0
            && let Some(target) = target(range)
        {
            return form(target, params);
        }
    }
    let message =
        "only the following media types are accepted: application/json, application/json;stream=watch";
    Err(ApiError::status(Reason::NotAcceptable, message))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Object,
    Metadata,
    Table,
}

fn form(target: Target, params: &Params) -> Result<Form, ApiError> {
    Ok(match target {
        Target::Object => Form::Object,
        Target::Metadata => Form::Metadata,
        Target::Table => Form::Table(match params.get("includeObject") {
            None | Some("Metadata") => IncludeObject::Metadata,
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            Some(other) => {
                let message = format!("unrecognized includeObject value: {other:?}");
                return Err(ApiError::status(Reason::BadRequest, message));
            }
        }),
    })
}

fn parameter<'a>(range: &'a str, name: &str) -> Option<&'a str> {
    range.split(';').skip(1).find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn quality(range: &str) -> f32 {
    parameter(range, "q").map_or(1.0, |q| q.parse().unwrap_or(0.0))
}

/// What a media range asks for; `None` when it cannot be served.
fn target(range: &str) -> Option<Target> {
    let media_type = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !matches!(media_type.as_str(), "application/json" | "application/*" | "*/*") {
        return None;
    }
    let target = match (parameter(range, "as"), parameter(range, "g"), parameter(range, "v")) {
        (None | Some(""), ..) => Target::Object,
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Target::Table,
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1")) => {
            Target::Metadata
        }
        _ => return None,
    };
    Some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_accept_header() {
        let table = Some(Form::Table(IncludeObject::Metadata));
        let cases = [
            ("", Some(Form::Object)),
            ("*/*", Some(Form::Object)),
            ("application/json", Some(Form::Object)),
            ("application/json;stream=watch", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf, */*", Some(Form::Object)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", table),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Form::Object)),
            ("application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io", table),
            ("application/json;q=0", None),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Some(Form::Metadata)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Some(Form::Metadata),
            ),
            ("text/html", None),
        ];
        for (accept, expected) in cases {
            let form = negotiate(accept, &Params::default());
            assert_eq!(form.as_ref().ok(), expected.as_ref(), "{accept}");
            if let Err(error) = form {
                assert_eq!(error.reason(), Reason::NotAcceptable);
            }
        }
    }

    #[test]
    fn a_table_holds_what_the_caller_asks_for() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let cases = [
            ("", Some(IncludeObject::Metadata)),
            ("includeObject=Object", Some(IncludeObject::Object)),
            ("includeObject=None", Some(IncludeObject::None)),
            ("includeObject=All", None),
        ];
        for (query, expected) in cases {
            let form = negotiate(accept, &Params::parse(query).expect("a query"));
            assert_eq!(form.ok(), expected.map(Form::Table), "{query}");
        }
    }
}
