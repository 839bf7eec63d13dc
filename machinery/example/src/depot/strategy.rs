//! Rules of the kind Depot.

use machinery_server::{ApiError, KindInfo, RequestContext, ServedVersion, Strategy};
use machinery_validation::{FieldError, FieldPath};

use super::{Depot, v1beta1};

/// Rules of the kind Depot. They are written once, for v1.
#[derive(Clone, Copy, Debug, Default)]
pub struct DepotStrategy {
    /// Version in which depots are stored; v1 by default.
    pub stored_version: Option<&'static str>,
}

impl Strategy for DepotStrategy {
    type Object = Depot;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "depot", short_names: &[], categories: &["transport"] }
    }

    fn versions(&self) -> Vec<ServedVersion<Depot>> {
        vec![ServedVersion::of::<v1beta1::Depot>()]
    }

    fn stored_version(&self) -> Option<&'static str> {
        self.stored_version
    }

    fn has_status(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut Depot) {}

    fn validate(&self, _: &RequestContext, depot: &Depot) -> Vec<FieldError> {
        let spec = FieldPath::new("spec");
        let mut errors = Vec::new();
        if depot.spec.bays < 1 {
            errors.push(FieldError::invalid(
                &spec.child("bays"),
                &depot.spec.bays.to_string(),
                "must be positive",
            ));
        }
        if let Some(chargers) =
            depot.spec.chargers.filter(|chargers| !(0..=depot.spec.bays).contains(chargers))
        {
            let problem = "must not be negative, nor more than there are bays";
            errors.push(FieldError::invalid(&spec.child("chargers"), &chargers.to_string(), problem));
        }
        errors
    }

    fn prepare_for_update(&self, _: &RequestContext, _: &mut Depot, _: &Depot) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(&self, context: &RequestContext, depot: &Depot, _: &Depot) -> Vec<FieldError> {
        self.validate(context, depot)
    }
}
