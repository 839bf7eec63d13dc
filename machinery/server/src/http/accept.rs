//! Negotiation of a reply's form and encoding. Source of the rules:
//! `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`.

use super::{encoding::Encoding, params::Params};
use crate::{ApiError, Reason, protobuf};

/// Form in which objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The objects themselves.
    Object,
    /// Their metadata: `PartialObjectMetadata` or a list of it.
    Metadata(MetaVersion),
    /// A `Table`.
    Table(IncludeObject, MetaVersion),
}

/// Version of `meta.k8s.io` in which a table or metadata is sent. They differ in name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// Returns the value of `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Content of a table's row besides its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    Metadata,
    /// The object.
    Object,
}

/// Form and encoding of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
}

/// Reads the header `Accept`, and for tables the parameter `includeObject`.
///
/// The range with the highest `q` that can be served wins, and of equal ones the first. Ranges that cannot be
/// served, such as objects in protobuf, are skipped.
///
/// # Errors
///
/// `NotAcceptable` when there is none.
pub(crate) fn negotiate(accept: &str, params: &Params) -> Result<Negotiated, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Negotiated { form: Form::Object, encoding: Encoding::Json });
    }
    let mut ranges: Vec<(f32, &str)> = accept.split(',').map(|range| (quality(range), range)).collect();
    // Stable: of equal ones, the first in the header comes first.
    ranges.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for (quality, range) in ranges {
        if quality > 0.0
            && let Some((target, encoding)) = encoding(range).and_then(|found| Some((target(range)?, found)))
            && (encoding != Encoding::Protobuf || matches!(target, Target::Metadata(_)))
        {
            return Ok(Negotiated { form: form(target, params)?, encoding });
        }
    }
    Err(not_acceptable("application/json, application/yaml, application/vnd.kubernetes.protobuf"))
}

/// Returns the encoding of a failure: the first one that the client accepts for an object of any kind. JSON
/// when there is none.
pub(crate) fn failure_encoding(accept: &str) -> Encoding {
    let mut best = (0.0, Encoding::Json);
    for range in accept.split(',').filter(|range| target(range) == Some(Target::Object)) {
        if let (quality, Some(encoding)) = (quality(range), encoding(range))
            && quality > best.0
        {
            best = (quality, encoding);
        }
    }
    best.1
}

/// The failure of a request that accepts none of the media types served.
pub(crate) fn not_acceptable(served: &str) -> ApiError {
    let message = format!("only the following media types are accepted: {served}");
    ApiError::status(Reason::NotAcceptable, message)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Object,
    Metadata(MetaVersion),
    Table(MetaVersion),
}

fn form(target: Target, params: &Params) -> Result<Form, ApiError> {
    Ok(match target {
        Target::Object => Form::Object,
        Target::Metadata(version) => Form::Metadata(version),
        Target::Table(version) => {
            let include = match params.get("includeObject") {
                None | Some("Metadata") => IncludeObject::Metadata,
                Some("None") => IncludeObject::None,
                Some("Object") => IncludeObject::Object,
                Some(other) => {
                    let message = format!("unrecognized includeObject value: {other:?}");
                    return Err(ApiError::status(Reason::BadRequest, message));
                }
            };
            Form::Table(include, version)
        }
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

/// Returns the encoding that a media range asks for; `None` when it is not served.
fn encoding(range: &str) -> Option<Encoding> {
    let media_type = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media_type.as_str() {
        "application/json" if parameter(range, "pretty") == Some("1") => Some(Encoding::PrettyJson),
        "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        protobuf::MEDIA_TYPE => Some(Encoding::Protobuf),
        _ => None,
    }
}

/// Returns what a media range asks for; `None` when it is not served.
fn target(range: &str) -> Option<Target> {
    let version = || match (parameter(range, "g")?, parameter(range, "v")?) {
        ("meta.k8s.io", "v1") => Some(MetaVersion::V1),
        ("meta.k8s.io", "v1beta1") => Some(MetaVersion::V1Beta1),
        _ => None,
    };
    match parameter(range, "as") {
        None | Some("") => Some(Target::Object),
        Some("Table") => version().map(Target::Table),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") => version().map(Target::Metadata),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_accept_header() {
        let table = Some(Form::Table(IncludeObject::Metadata, MetaVersion::V1));
        let metadata = Some(Form::Metadata(MetaVersion::V1));
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
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(Form::Table(IncludeObject::Metadata, MetaVersion::V1Beta1)),
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
                Some(Form::Metadata(MetaVersion::V1Beta1)),
            ),
            ("application/yaml", Some(Form::Object)),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", metadata),
            ("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", None),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                metadata,
            ),
            ("text/html", None),
        ];
        for (accept, expected) in cases {
            let form = negotiate(accept, &Params::default()).map(|negotiated| negotiated.form);
            assert_eq!(form.as_ref().ok(), expected.as_ref(), "{accept}");
            if let Err(error) = form {
                assert_eq!(error.reason(), Reason::NotAcceptable);
            }
        }
    }

    #[test]
    fn metadata_and_failures_are_sent_in_protobuf_to_clients_that_prefer_it() {
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let cases = [
            (metadata.to_owned(), Some(Encoding::Protobuf), Encoding::Json),
            (format!("{metadata},application/json"), Some(Encoding::Protobuf), Encoding::Json),
            (format!("application/json,{metadata}"), Some(Encoding::Json), Encoding::Json),
            ("application/vnd.kubernetes.protobuf".to_owned(), None, Encoding::Protobuf),
            ("application/vnd.kubernetes.protobuf,*/*".to_owned(), Some(Encoding::Json), Encoding::Protobuf),
            ("application/yaml;q=0.5,*/*".to_owned(), Some(Encoding::Json), Encoding::Json),
            ("text/html".to_owned(), None, Encoding::Json),
        ];
        for (accept, reply, failure) in cases {
            let negotiated = negotiate(&accept, &Params::default()).map(|negotiated| negotiated.encoding);
            assert_eq!((negotiated.ok(), failure_encoding(&accept)), (reply, failure), "{accept}");
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
            let expected = expected.map(|include| Form::Table(include, MetaVersion::V1));
            assert_eq!(form.ok().map(|negotiated| negotiated.form), expected, "{query}");
        }
    }
}
