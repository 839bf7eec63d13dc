//! Rules of the kind Fleet.

use machinery_server::{ApiError, Column, KindInfo, RequestContext, ScalePaths, Strategy};
use machinery_validation::FieldError;
use serde_json::Value;

use crate::{Fleet, Replacement, table, validation::validate_fleet};

/// Rules of the kind Fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetStrategy;

impl Strategy for FleetStrategy {
    type Object = Fleet;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "fleet", short_names: &["fl"], categories: &["transport"] }
    }

    fn scale(&self, _: &str) -> Option<ScalePaths> {
        Some(ScalePaths::STANDARD)
    }

    fn default(&self, _: &RequestContext, object: &mut Fleet) {
        let spec = &mut object.spec;
        spec.replicas.get_or_insert(1);
        spec.replacement.get_or_insert(Replacement::Rolling);
        for vehicle in spec.vehicles.iter_mut().flatten() {
            vehicle.seats.get_or_insert(4);
        }
        for stop in spec.stops.iter_mut().flatten() {
            stop.platform.get_or_insert(1);
        }
        if let Some(license) = spec.driver.as_mut().and_then(|driver| driver.license.as_mut()) {
            license.class.get_or_insert_with(|| "B".to_owned());
        }
    }

    fn prepare_for_create(&self, _: &RequestContext, object: &mut Fleet) {
        object.status = None;
    }

    fn validate(&self, _: &RequestContext, object: &Fleet) -> Vec<FieldError> {
        validate_fleet(object)
    }

    fn prepare_for_update(
        &self,
        _: &RequestContext,
        object: &mut Fleet,
        old: &Fleet,
    ) -> Result<(), ApiError> {
        object.status.clone_from(&old.status);
        Ok(())
    }

    fn validate_update(&self, _: &RequestContext, object: &Fleet, _: &Fleet) -> Vec<FieldError> {
        validate_fleet(object)
    }

    fn prepare_for_status_update(
        &self,
        _: &RequestContext,
        object: &mut Fleet,
        old: &Fleet,
    ) -> Result<(), ApiError> {
        object.spec = old.spec.clone();
        Ok(())
    }

    fn validate_status_update(&self, _: &RequestContext, object: &Fleet, _: &Fleet) -> Vec<FieldError> {
        validate_fleet(object)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.depot"]
    }

    fn field(&self, object: &Fleet, field: &str) -> String {
        if field == "spec.depot" { object.spec.depot.clone() } else { String::new() }
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, object: &Fleet) -> Vec<Value> {
        table::cells(object)
    }
}
