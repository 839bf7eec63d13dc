//! The parameters of a request's query.

use machinery_merge::Strictness;
use machinery_validation::{FieldError, FieldPath};

use super::invalid_options;
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

    fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is given and not `false` or `0`, as Kubernetes reads switches.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.switch(name) == Some(true)
    }

    /// A switch, if it is given. One without a value counts as on.
    pub(crate) fn switch(&self, name: &str) -> Option<bool> {
        self.all(name).next().map(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A number, if it is given.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name)
            .map(|value| {
                value.parse().map_err(|_| {
                    ApiError::status(Reason::BadRequest, format!("{name}: {value:?} is not a number"))
                })
            })
            .transpose()
    }

    /// A resourceVersion, if it is given.
    pub(crate) fn revision(&self) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get("resourceVersion") else {
            return Ok(None);
        };
        match value.parse::<i64>() {
            Ok(revision) if revision >= 0 => Ok(Some(revision)),
            _ => {
                let field = FieldPath::new("resourceVersion");
                let problem = "must be a resourceVersion that the server gave out";
                Err(invalid_options("ListOptions", &[FieldError::invalid(&field, value, problem)]))
            }
        }
    }

    /// Whether nothing may be stored: `dryRun=All`.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, ApiError> {
        let values: Vec<&str> = self.all("dryRun").filter(|value| !value.is_empty()).collect();
        dry_run(options, &values)
    }

    /// What happens to unknown and duplicate fields: `fieldValidation`.
    pub(crate) fn strictness(&self, options: &str) -> Result<Strictness, ApiError> {
        match self.get("fieldValidation") {
            None | Some("Warn") => Ok(Strictness::Warn),
            Some("Strict") => Ok(Strictness::Strict),
            Some("Ignore") => Ok(Strictness::Ignore),
            Some(other) => {
                let field = FieldPath::new("fieldValidation");
                let error = FieldError::not_supported(&field, other, &["", "Ignore", "Strict", "Warn"]);
                Err(invalid_options(options, &[error]))
            }
        }
    }
}

/// Whether nothing may be stored; `All` is the only value.
pub(crate) fn dry_run(options: &str, values: &[&str]) -> Result<bool, ApiError> {
    match values.iter().find(|value| **value != "All") {
        None => Ok(!values.is_empty()),
        Some(other) => {
            let error = FieldError::not_supported(&FieldPath::new("dryRun"), other, &["All"]);
            Err(invalid_options(options, &[error]))
        }
    }
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
        type Check = fn(&Params) -> Option<ApiError>;
        let cases: [(&str, Check, &str); 5] = [
            ("limit=x", |p| p.number("limit").err(), "limit: \"x\" is not a number"),
            ("resourceVersion=x", |p| p.revision().err(), "resourceVersion: Invalid value: \"x\""),
            ("resourceVersion=-1", |p| p.revision().err(), "resourceVersion: Invalid value: \"-1\""),
            ("dryRun=Some", |p| p.dry_run("CreateOptions").err(), "dryRun: Unsupported value: \"Some\""),
            (
                "fieldValidation=no",
                |p| p.strictness("CreateOptions").err(),
                "fieldValidation: Unsupported value",
            ),
        ];
        for (query, check, message) in cases {
            let error = check(&params(query)).unwrap_or_else(|| panic!("{query} is accepted"));
            assert!(error.to_string().contains(message), "{query}: {error}");
        }
        assert!(params("dryRun=All&dryRun=All").dry_run("CreateOptions").expect("good"));
        assert_eq!(params("fieldValidation=Strict").strictness("").expect("good"), Strictness::Strict);
    }
}
