//! Options of creations, updates and patches. Source of the rules:
//! `k8s.io/apimachinery/pkg/apis/meta/v1/validation`.

use machinery_apply::{MAX_MANAGER_BYTES, ManagerNameError, validate_manager};
use machinery_merge::Strictness;
use machinery_validation::{FieldError, FieldPath};

use super::{input::PatchBody, invalid_options, params::Params};
use crate::ApiError;

/// Options of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// True for a dry run.
    pub(crate) dry_run: bool,
    /// Treatment of unknown and duplicate fields.
    pub(crate) strictness: Strictness,
    /// Name of the field manager; empty when the caller gave none.
    pub(crate) field_manager: String,
    /// True when an apply takes the fields of others.
    pub(crate) force: bool,
    /// True for a patch.
    pub(crate) patch: bool,
}

impl WriteOptions {
    /// Reads the options of a creation.
    pub(crate) fn of_create(params: &Params) -> Result<Self, ApiError> {
        Self::read(params, "CreateOptions", Vec::new())
    }

    /// Reads the options of a replacement.
    pub(crate) fn of_update(params: &Params) -> Result<Self, ApiError> {
        Self::read(params, "UpdateOptions", Vec::new())
    }

    /// Reads the options of a patch. Only an apply can be forced, and an apply has a field manager.
    pub(crate) fn of_patch(params: &Params, body: PatchBody) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        if body == PatchBody::Apply {
            if params.get("fieldManager").is_none() {
                errors.push(FieldError::required(
                    &FieldPath::new("fieldManager"),
                    "is required for apply patch",
                ));
            }
        } else if params.switch("force").is_some() {
            let problem = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&FieldPath::new("force"), problem));
        }
        Ok(Self { patch: true, ..Self::read(params, "PatchOptions", errors)? })
    }

    fn read(params: &Params, kind: &'static str, mut errors: Vec<FieldError>) -> Result<Self, ApiError> {
        let field_manager = params.get("fieldManager").unwrap_or_default();
        errors.extend(manager_errors(field_manager));
        let dry_run = params.dry_run().map_err(|error| errors.push(error));
        let strictness = params.strictness().map_err(|error| errors.push(error));
        match (dry_run, strictness) {
            (Ok(dry_run), Ok(strictness)) if errors.is_empty() => Ok(Self {
                dry_run,
                strictness,
                field_manager: field_manager.to_owned(),
                force: params.is_true("force"),
                patch: false,
            }),
            _ => Err(invalid_options(kind, &errors)),
        }
    }
}

fn manager_errors(manager: &str) -> impl Iterator<Item = FieldError> {
    let field = FieldPath::new("fieldManager");
    validate_manager(manager).into_iter().map(move |error| match error {
        ManagerNameError::TooLong => FieldError::too_long(&field, MAX_MANAGER_BYTES),
        error @ ManagerNameError::Unprintable { .. } => FieldError::invalid(&field, manager, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::PatchKind;

    const MERGE: PatchBody = PatchBody::Patch(PatchKind::Merge);

    fn patch(query: &str, body: PatchBody) -> Result<WriteOptions, String> {
        let params = Params::parse(query).expect("a query");
        WriteOptions::of_patch(&params, body).map_err(|error| error.to_string())
    }

    #[test]
    fn an_apply_has_a_manager_and_only_an_apply_can_be_forced() {
        let applied = patch("fieldManager=flux&force=true", PatchBody::Apply).expect("good");
        assert_eq!((applied.field_manager.as_str(), applied.force), ("flux", true));
        let error = patch("", PatchBody::Apply).expect_err("no manager");
        let invalid = "PatchOptions.meta.k8s.io \"\" is invalid: ";
        assert_eq!(error, format!("{invalid}fieldManager: Required value: is required for apply patch"));
        let error = patch("force=false", MERGE).expect_err("no apply");
        assert_eq!(error, format!("{invalid}force: Forbidden: may not be specified for non-apply patch"));
    }

    #[test]
    fn every_bad_option_is_named() {
        let long = "x".repeat(129);
        let query = format!("fieldManager={long}%0A&dryRun=Some&fieldValidation=Maybe");
        let error = patch(&query, MERGE).expect_err("bad options");
        for part in ["fieldManager: Too long", "at position 129", "dryRun: ", "fieldValidation: "] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
