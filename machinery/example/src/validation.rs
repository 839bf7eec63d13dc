//! Validation of fleets beyond their schema.

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use crate::Fleet;

/// Returns all problems of a fleet that its schema does not state.
pub(crate) fn validate_fleet(fleet: &Fleet) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let ownership = fleet.spec.ownership.as_ref();
    if ownership.is_some_and(|ownership| ownership.lease.is_some() && ownership.purchase.is_some()) {
        let field = FieldPath::new("spec").child("ownership");
        let message = "at most one of lease and purchase may be set";
        errors.push(FieldError::new(FieldErrorKind::Invalid, &field, message));
    }
    errors
}
