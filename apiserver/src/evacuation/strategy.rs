//! The hooks of the kind Evacuation. Each calls its rule.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use evacuation_api::{
    Evacuation, Requester, default_evacuation, default_evacuation_update, default_owners,
    validate_evacuation, validate_evacuation_update,
};
use evacuation_protocol::{EditError, is_finished};
use machinery_auth::Authorizer;
use machinery_server::{
    ApiError, Cause, ClaimConflict, Column, DeleteContext, KindInfo, Registry, Removable, RequestContext,
    Strategy,
};
use machinery_validation::FieldError;
use serde_json::Value;

use super::{records, table};
use crate::{CurrentSettings, EvacuationResponderStrategy, pods::Pods, refusal, restored, rights::Rights};

/// Cause of a rejected creation. Its message is the name of the active Evacuation.
const ACTIVE_EXISTS: &str = "ActiveEvacuationExists";
/// Cause of a rejected rehearsal. Its message is the name of the one that goes on.
const REHEARSAL_EXISTS: &str = "ActiveRehearsalExists";
/// Cause of the conflict with an Evacuation that cannot be read. It is not joined either.
const ACTIVE_UNREADABLE: &str = "ActiveEvacuationUnreadable";

/// The rules of the kind Evacuation that need the caller, the live pod or the time.
///
/// The other rules are in `evacuation-protocol`, which the controller and kubectl use too.
pub struct EvacuationStrategy {
    pub(super) pods: Arc<dyn Pods>,
    pub(super) registrations: Arc<Registry<EvacuationResponderStrategy>>,
    pub(super) rights: Rights,
    pub(super) settings: Arc<CurrentSettings>,
}

impl EvacuationStrategy {
    /// Returns the strategy. It reads targets from `pods` and their EvacuationResponders from
    /// `registrations`.
    /// `authorizer` checks rights beyond a request's verb. `settings` has the defaults of requesters and the
    /// limits of responders.
    pub fn new(
        pods: Arc<dyn Pods>,
        registrations: Arc<Registry<EvacuationResponderStrategy>>,
        authorizer: Arc<dyn Authorizer>,
        settings: Arc<CurrentSettings>,
    ) -> Self {
        Self { pods, registrations, rights: Rights::new(authorizer), settings }
    }

    /// Gives the caller's entries the default deadline of the cluster.
    fn give_deadlines(&self, context: &RequestContext, object: &mut Evacuation, old: &[Requester]) {
        let (settings, user) = (self.settings.get(), &context.user.name);
        for warning in settings.give_deadlines(&mut object.spec, old, user, context.now) {
            context.warnings.add(warning);
        }
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

    /// The owner is a part of an entry's key. A configuration with an entry of another user would make its
    /// manager a co-owner: the entry, without its fields, would then outlive what the other user applies.
    async fn complete_partial(
        &self,
        context: &RequestContext,
        name: &str,
        part: &mut Value,
    ) -> Result<(), ApiError> {
        let user = &context.user.name;
        let entries = part.pointer_mut("/spec/requesters").and_then(Value::as_array_mut);
        let mut of_another = None;
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            let owner = entry.entry("owner").or_insert(Value::Null);
            if owner.as_str().is_none_or(str::is_empty) {
                *owner = user.as_str().into();
            } else if let Some(owner) = owner.as_str().filter(|owner| owner != user) {
                let (owner, requester) = (owner.to_owned(), entry.get("name").and_then(Value::as_str));
                of_another.get_or_insert((owner, requester.unwrap_or_default().to_owned()));
            }
        }
        let Some((owner, requester)) = of_another else { return Ok(()) };
        if self.rights.may_override(context, name).await? {
            return Ok(());
        }
        Err(refusal::edit(name, &EditError::NotYours { requester, owner }))
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

    /// Clears the status. That of finished work stays for `validate`, which refuses it.
    fn prepare_for_create(&self, context: &RequestContext, object: &mut Evacuation) {
        if !restored::has_ended(object) {
            object.status = None;
        }
        self.give_deadlines(context, object, &[]);
    }

    /// An Evacuation cannot be paused, so one that was restored is refused.
    fn validate(&self, _: &RequestContext, object: &Evacuation) -> Vec<FieldError> {
        let mut problems = validate_evacuation(object);
        problems.extend(restored::problems(object));
        problems
    }

    async fn admit_create(&self, context: &RequestContext, object: &mut Evacuation) -> Result<(), ApiError> {
        self.admit_new(context, object).await
    }

    fn prepare_for_update(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        object.status.clone_from(&old.status);
        default_evacuation_update(object, old);
        self.give_deadlines(context, object, &old.spec.requesters);
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

    async fn may_use_reserve(
        &self,
        context: &RequestContext,
        object: &Evacuation,
        old: Option<&Evacuation>,
    ) -> Result<bool, ApiError> {
        self.owners_may_use_reserve(context, object, old).await
    }

    fn removable(&self, object: &Evacuation) -> Option<Removable> {
        records::removable(object)
    }

    /// An apply has entries of its caller only, or of others where the caller may override.
    fn entry_owners(&self, fields: &Value) -> Option<BTreeSet<String>> {
        let entries = fields.pointer("/f:spec/f:requesters").and_then(Value::as_object);
        let keys = entries.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("k:"));
        let owners = keys.filter_map(|key| {
            let key: Value = serde_json::from_str(key).ok()?;
            key.get("owner").and_then(Value::as_str).map(str::to_owned)
        });
        Some(owners.collect())
    }

    fn claims(&self, object: &Evacuation) -> Vec<String> {
        if object.status.as_ref().is_some_and(is_finished) {
            return Vec::new();
        }
        let place = if object.spec.rehearsal { "rehearsal" } else { "pod" };
        object.spec.target.pod.uid.iter().map(|uid| format!("{place}-{uid}")).collect()
    }

    fn claim_conflict(&self, object: &Evacuation, conflict: &ClaimConflict) -> ApiError {
        let (name, pod) = (object.metadata.name.as_deref().unwrap_or_default(), &object.spec.target.pod.name);
        let active = &conflict.holder_name;
        let (reason, state) = if conflict.is_holder_unreadable {
            (
                ACTIVE_UNREADABLE,
                "whose stored object cannot be decoded: an administrator must repair or delete it",
            )
        } else if object.spec.rehearsal {
            (REHEARSAL_EXISTS, "and no two at a time: wait for its end, or cancel it")
        } else {
            (ACTIVE_EXISTS, "which can be joined")
        };
        let what = if object.spec.rehearsal { "rehearsed" } else { "being evacuated" };
        let why = format!("pod {pod:?} is {what} by evacuation {active:?}, {state}");
        let field = "spec.target.pod.uid".to_owned();
        let cause = Cause { reason: reason.to_owned(), message: active.clone(), field };
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
