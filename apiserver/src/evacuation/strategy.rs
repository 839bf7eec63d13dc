//! The hooks of the kind Evacuation. Each calls its rule.

use std::sync::Arc;

use async_trait::async_trait;
use evacuation_api::{
    Evacuation, default_evacuation, default_evacuation_update, default_owners, validate_evacuation,
    validate_evacuation_update,
};
use evacuation_protocol::is_finished;
use machinery_auth::Authorizer;
use machinery_server::{
    ApiError, Cause, ClaimConflict, Column, DeleteContext, KindInfo, Registry, RequestContext, Strategy,
};
use machinery_validation::FieldError;
use serde_json::Value;

use super::table;
use crate::{EvacuationResponderStrategy, pods::Pods, refusal, rights::Rights};

/// Cause of a rejected creation. Its message is the name of the active Evacuation.
const ACTIVE_EXISTS: &str = "ActiveEvacuationExists";

/// The rules of the kind Evacuation that need the caller, the live pod or the time.
///
/// The other rules are in `evacuation-protocol`, which the controller and kubectl use too.
pub struct EvacuationStrategy {
    pub(super) pods: Arc<dyn Pods>,
    pub(super) registrations: Arc<Registry<EvacuationResponderStrategy>>,
    pub(super) rights: Rights,
}

impl EvacuationStrategy {
    /// Returns the strategy. It reads targets from `pods` and their EvacuationResponders from
    /// `registrations`.
    /// `authorizer` checks rights beyond a request's verb.
    pub fn new(
        pods: Arc<dyn Pods>,
        registrations: Arc<Registry<EvacuationResponderStrategy>>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        Self { pods, registrations, rights: Rights::new(authorizer) }
    }
}

#[async_trait]
impl Strategy for EvacuationStrategy {
    type Object = Evacuation;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "evacuation", short_names: &["evac"], categories: &[] }
    }

    fn default(&self, context: &RequestContext, object: &mut Evacuation) {
        default_evacuation(object);
        default_owners(object, &context.user.name);
    }

    /// The owner is a part of an entry's key.
    fn complete_applied(&self, context: &RequestContext, configuration: &mut Value) {
        let entries = configuration.pointer_mut("/spec/requesters").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            let owner = entry.entry("owner").or_insert(Value::Null);
            if owner.as_str().is_none_or(str::is_empty) {
                *owner = context.user.name.as_str().into();
            }
        }
    }

    /// Entries of others stay. A manager's name is no secret: another user can have given an entry to it.
    fn complete_merged(&self, context: &RequestContext, object: &mut Evacuation, old: &Evacuation) {
        let mut merged = std::mem::take(&mut object.spec.requesters);
        for entry in &old.spec.requesters {
            match merged.iter().position(|known| known.key() == entry.key()) {
                Some(place) => object.spec.requesters.push(merged.remove(place)),
                None if entry.owner == context.user.name => {}
                None => object.spec.requesters.push(entry.clone()),
            }
        }
        object.spec.requesters.append(&mut merged);
    }

    fn prepare_for_create(&self, _: &RequestContext, object: &mut Evacuation) {
        object.status = None;
    }

    fn validate(&self, _: &RequestContext, object: &Evacuation) -> Vec<FieldError> {
        validate_evacuation(object)
    }

    async fn admit_create(&self, context: &RequestContext, object: &mut Evacuation) -> Result<(), ApiError> {
        self.admit_new(context, object).await
    }

    fn prepare_for_update(
        &self,
        _: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        object.status.clone_from(&old.status);
        default_evacuation_update(object, old);
        Ok(())
    }

    fn validate_update(&self, _: &RequestContext, object: &Evacuation, old: &Evacuation) -> Vec<FieldError> {
        validate_evacuation_update(object, old)
    }

    async fn admit_update(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        self.admit_edit(context, object, old).await
    }

    fn prepare_for_status_update(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        Self::accept_status(context, object, old)
    }

    async fn prepare_for_delete(
        &self,
        context: &RequestContext,
        delete: DeleteContext,
        object: &mut Evacuation,
    ) -> Result<(), ApiError> {
        self.admit_delete(context, delete, object).await
    }

    async fn may_use_reserve(&self, context: &RequestContext, _: &Evacuation) -> Result<bool, ApiError> {
        self.rights.may_create_everywhere(context, Evacuation::PLURAL).await
    }

    fn claims(&self, object: &Evacuation) -> Vec<String> {
        if object.status.as_ref().is_some_and(is_finished) {
            return Vec::new();
        }
        object.spec.target.pod.uid.iter().map(|uid| format!("pod-{uid}")).collect()
    }

    fn claim_conflict(&self, object: &Evacuation, conflict: &ClaimConflict) -> ApiError {
        let (name, pod) = (object.metadata.name.as_deref().unwrap_or_default(), &object.spec.target.pod.name);
        let active = &conflict.holder_name;
        let why = format!("pod {pod:?} is being evacuated by evacuation {active:?}, which can be joined");
        let field = "spec.target.pod.uid".to_owned();
        let cause = Cause { reason: ACTIVE_EXISTS.to_owned(), message: active.clone(), field };
        refusal::conflict(name, &why, cause, None)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        table::SELECTABLE_FIELDS
    }

    fn field(&self, object: &Evacuation, field: &str) -> String {
        table::field(object, field)
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, object: &Evacuation) -> Vec<serde_json::Value> {
        table::cells(object)
    }
}
