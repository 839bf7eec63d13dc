//! The parameters of a request's query.

use std::time::Duration;

use jiff::SignedDuration;
use machinery_merge::Strictness;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use crate::{ApiError, Reason};

/// The parameters of a request's query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(query: &str) -> Result<Self, ApiError> {
        let pairs = actix_web::web::Query::<Vec<(String, String)>>::from_query(query).map_err(|error| {
            ApiError::status(Reason::BadRequest, format!("the query cannot be read: {error}"))
        })?;
        Ok(Self(pairs.into_inner()))
    }

    /// The first value of a parameter; `None` when it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next().filter(|value| !value.is_empty())
    }

    /// Every value of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// True if a parameter is given and is not `false` or `0`, as Kubernetes reads switches.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.switch(name) == Some(true)
    }

    /// Returns a switch, if it is given. One without a value is on. As in kube-apiserver, no value is an
    /// error.
    pub(crate) fn switch(&self, name: &str) -> Option<bool> {
        self.all(name).next().map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// Returns a number, if it is given.
    ///
    /// # Errors
    ///
    /// `BadRequest` with the parameter's name, and in kube-apiserver's words.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let parse = |value: &str| {
            value.parse().map_err(|_| {
                let message = format!("{name}: strconv.ParseInt: parsing {value:?}: invalid syntax");
                ApiError::status(Reason::BadRequest, message)
            })
        };
        self.get(name).map(parse).transpose()
    }

    /// Returns the time that a request may take: `timeout` in the query, such as `30s`, if it is shorter than
    /// `most`. Source of the rule: `k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go`.
    ///
    /// # Errors
    ///
    /// `BadRequest` when it is not a duration.
    pub(crate) fn timeout(&self, most: Duration) -> Result<Duration, ApiError> {
        let Some(value) = self.get("timeout") else {
            return Ok(most);
        };
        let parsed = value.parse::<SignedDuration>().map_err(|error| {
            let message = format!("invalid timeout specified in the request URL - {error}");
            ApiError::status(Reason::BadRequest, message)
        })?;
        // As upstream: no time at all means no limit of the caller's own.
        let given = Duration::try_from(parsed).unwrap_or_default();
        Ok(if given.is_zero() { most } else { given.min(most) })
    }

    /// A resourceVersion, if it is given.
    pub(crate) fn revision(&self) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get("resourceVersion") else {
            return Ok(None);
        };
        match value.parse::<i64>() {
            Ok(revision) if revision >= 0 => Ok(Some(revision)),
            _ => {
                let message = format!(
                    "invalid resource version: resourceVersion: Invalid value: {value:?}: strconv.ParseUint: parsing \
                     {value:?}: invalid syntax"
                );
                Err(ApiError::status(Reason::BadRequest, message))
            }
        }
    }

    /// True for a dry run: `dryRun=All`.
    pub(crate) fn dry_run(&self) -> Result<bool, FieldError> {
        let values: Vec<&str> = self.all("dryRun").filter(|value| !value.is_empty()).collect();
        dry_run(&values)
    }

    /// Treatment of unknown and duplicate fields: `fieldValidation`.
    pub(crate) fn strictness(&self) -> Result<Strictness, FieldError> {
        match self.get("fieldValidation") {
            None | Some("Warn") => Ok(Strictness::Warn),
            Some("Strict") => Ok(Strictness::Strict),
            Some("Ignore") => Ok(Strictness::Ignore),
            Some(other) => {
                let field = FieldPath::new("fieldValidation");
                Err(FieldError::not_supported(&field, other, &["", "Ignore", "Strict", "Warn"]))
            }
        }
    }
}

/// True for a dry run; `All` is the only value.
pub(crate) fn dry_run(values: &[&str]) -> Result<bool, FieldError> {
    if values.iter().all(|value| *value == "All") {
        return Ok(!values.is_empty());
    }
    // As upstream, the message has the whole list.
    let message = format!("{values:?}: supported values: \"All\"");
    Err(FieldError::new(FieldErrorKind::NotSupported, &FieldPath::new("dryRun"), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        Params::parse(query).expect("a query")
    }

    #[test]
    fn switches_are_read_as_kubernetes_reads_them() {
        let cases = [
            ("", false),
            ("watch", true),
            ("watch=", true),
            ("watch=true", true),
            ("watch=1", true),
            ("watch=yes", true),
            ("watch=False", false),
            ("watch=0", false),
        ];
        for (query, on) in cases {
            assert_eq!(params(query).is_true("watch"), on, "{query}");
        }
    }

    #[test]
    fn bad_options_are_named() {
        type Check = fn(&Params) -> Option<String>;
        let cases: [(&str, Check, &str); 5] = [
            (
                "limit=x",
                |p| p.number("limit").err().map(|error| error.to_string()),
                "limit: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            (
                "resourceVersion=x",
                |p| p.revision().err().map(|error| error.to_string()),
                "resourceVersion: Invalid value: \"x\"",
            ),
            (
                "resourceVersion=-1",
                |p| p.revision().err().map(|error| error.to_string()),
                "resourceVersion: Invalid value: \"-1\"",
            ),
            (
                "dryRun=Some",
                |p| p.dry_run().err().map(|error| error.to_string()),
                "dryRun: Unsupported value: [\"Some\"]",
            ),
            (
                "fieldValidation=no",
                |p| p.strictness().err().map(|error| error.to_string()),
                "fieldValidation: Unsupported value",
            ),
        ];
        for (query, check, message) in cases {
            let error = check(&params(query)).unwrap_or_else(|| panic!("{query} is accepted"));
            assert!(error.contains(message), "{query}: {error}");
        }
        for (query, seconds) in [
            ("", 60.0),
            ("timeout=", 60.0),
            ("timeout=0s", 60.0),
            ("timeout=-5s", 60.0),
            ("timeout=1.5s", 1.5),
            ("timeout=250ms", 0.25),
            ("timeout=1h", 60.0),
        ] {
            let timeout = params(query).timeout(Duration::from_mins(1)).expect("a duration");
            assert_eq!(timeout, Duration::from_secs_f64(seconds), "{query}");
        }
        let error = params("timeout=soon").timeout(Duration::from_mins(1)).expect_err("no duration");
        assert!(error.to_string().starts_with("invalid timeout specified in the request URL"), "{error}");
        assert!(params("dryRun=All&dryRun=All").dry_run().expect("good"));
        assert_eq!(params("fieldValidation=Strict").strictness().expect("good"), Strictness::Strict);
    }
}
