//! The hooks of the kind NodeEvacuation.

use std::sync::Arc;

use async_trait::async_trait;
use evacuation_api::{
    DRAIN_FINALIZER, DrainConditionType, DrainUser, NodeEvacuation, NodeEvacuationStatus, Timestamp,
    default_node_evacuation, validate_node_evacuation, validate_node_evacuation_update,
};
use evacuation_protocol::owner_rule;
use machinery_auth::Authorizer;
use machinery_server::{ApiError, Column, DeleteContext, KindInfo, Registry, RequestContext, Strategy};
use machinery_validation::FieldError;

use super::{
    ownership::{ended, holds_nothing, is_expired, request_differs},
    sight::Sights,
    status::validate_status,
    table,
};
use crate::{
    CurrentSettings, GroupTerm, NodeEvacuationRuleStrategy, drain_warning::warn, restored::pause_drain,
    rights::Rights,
};

/// The rules of the kind NodeEvacuation.
///
/// # Guarantees
///
/// - A user who asks for a drain, or changes what it asks for, may evict pods in all namespaces and patch
///   nodes. With `atDeadline: Delete` the user may delete pods in all namespaces.
/// - `status.requester` is the user who created the object, or the rule that the controller opened it for. No
///   writer changes it.
/// - Another user needs the verb `override` to change the request, or to delete a drain that has not ended.
///   To pause and to resume, to change the metadata, and to delete a drain whose time to live is over, the
///   verb of the request is enough.
/// - No user has more than a quarter of the drains.
/// - The end of a drain is final: conditions, finish time and spec stay.
/// - A drain that is restored from a backup is created paused.
pub struct NodeEvacuationStrategy {
    pub(super) rights: Rights,
    pub(super) rules: Arc<Registry<NodeEvacuationRuleStrategy>>,
    pub(super) term: GroupTerm,
    sights: Arc<dyn Sights>,
    settings: Arc<CurrentSettings>,
}

impl NodeEvacuationStrategy {
    /// Returns the strategy. `authorizer` checks rights beyond a request's verb. `rules` are the rules that
    /// open drains, and the recorded groups of their users count for `term`. `sights` makes the plan of a dry
    /// run. `settings` has the default deadline.
    pub fn new(
        authorizer: Arc<dyn Authorizer>,
        (rules, term): (Arc<Registry<NodeEvacuationRuleStrategy>>, GroupTerm),
        sights: Arc<dyn Sights>,
        settings: Arc<CurrentSettings>,
    ) -> Self {
        Self { rights: Rights::new(authorizer), rules, term, sights, settings }
    }

    /// Puts the plan into the reply to a dry run. Without it the reply has a warning.
    async fn plan(&self, context: &RequestContext, object: &mut NodeEvacuation) {
        match self.sights.preview(object, &context.user.name, context.now).await {
            Ok(plan) => {
                object.status = Some(plan.status);
                for what in plan.left_out {
                    let text = format!(
                        "status.plan does not tell what {what} hold back: they are too many or too large"
                    );
                    context.warnings.add(text);
                }
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a drain has no plan");
                context.warnings.add(format!("the reply has no status.plan: {error}"));
            }
        }
    }
}

#[async_trait]
impl Strategy for NodeEvacuationStrategy {
    type Object = NodeEvacuation;

    fn info(&self) -> KindInfo {
        KindInfo {
            namespaced: false,
            singular: "nodeevacuation",
            short_names: &["nodeevac"],
            categories: &[],
        }
    }

    fn default(&self, _: &RequestContext, object: &mut NodeEvacuation) {
        default_node_evacuation(object);
    }

    /// Records the caller, and adds the finalizer with which the controller withdraws the requests. A drain
    /// that was restored is paused.
    fn prepare_for_create(&self, context: &RequestContext, object: &mut NodeEvacuation) {
        // It reads the caller's status and finalizers, which are replaced below.
        pause_drain(context, object);
        // A rule's template has the deadline of its drains.
        if owner_rule(object).is_none()
            && let Some(warning) = self.settings.get().give_drain_deadline(&mut object.spec.requester)
        {
            context.warnings.add(format!("spec.{warning}"));
        }
        let requester = DrainUser {
            user: context.user.name.clone(),
            groups: context.user.groups.clone(),
            time: Timestamp(context.now),
        };
        object.status =
            Some(NodeEvacuationStatus { requester: Some(requester), ..NodeEvacuationStatus::default() });
        let finalizers = object.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == DRAIN_FINALIZER) {
            finalizers.push(DRAIN_FINALIZER.to_owned());
        }
    }

    fn validate(&self, _: &RequestContext, object: &NodeEvacuation) -> Vec<FieldError> {
        validate_node_evacuation(object)
    }

    async fn admit_create(
        &self,
        context: &RequestContext,
        object: &mut NodeEvacuation,
    ) -> Result<(), ApiError> {
        self.require_rights(&context.user, object).await?;
        self.act_for_rule(context, object).await?;
        warn(context, &object.spec, None, "spec");
        if context.dry_run {
            self.plan(context, object).await;
        }
        Ok(())
    }

    fn prepare_for_update(
        &self,
        context: &RequestContext,
        object: &mut NodeEvacuation,
        old: &NodeEvacuation,
    ) -> Result<(), ApiError> {
        object.status.clone_from(&old.status);
        let (requester, known) = (&mut object.spec.requester, &old.spec.requester);
        if let Some(warning) = self.settings.get().keep_drain_deadline(requester, known) {
            context.warnings.add(format!("spec.{warning}"));
        }
        Ok(())
    }

    fn validate_update(
        &self,
        _: &RequestContext,
        object: &NodeEvacuation,
        old: &NodeEvacuation,
    ) -> Vec<FieldError> {
        validate_node_evacuation_update(object, old)
    }

    async fn admit_update(
        &self,
        context: &RequestContext,
        object: &mut NodeEvacuation,
        old: &NodeEvacuation,
    ) -> Result<(), ApiError> {
        self.require_same_rule(context, object, old).await?;
        if object.spec == old.spec {
            return Ok(());
        }
        if is_finished(old) {
            return Err(ended(old));
        }
        if request_differs(&object.spec, &old.spec) {
            self.require_ownership(context, old, "change what the drain asks for").await?;
            self.require_rights(&context.user, object).await?;
            warn(context, &object.spec, Some(&old.spec), "spec");
        }
        Ok(())
    }

    fn prepare_for_status_update(
        &self,
        _: &RequestContext,
        object: &mut NodeEvacuation,
        old: &NodeEvacuation,
    ) -> Result<(), ApiError> {
        object.spec = old.spec.clone();
        let status = object.status.get_or_insert_default();
        status.requester = old.status.as_ref().and_then(|old| old.requester.clone());
        (status.plan, status.plan_omitted) = (Vec::new(), 0);
        Ok(())
    }

    fn validate_status_update(
        &self,
        _: &RequestContext,
        object: &NodeEvacuation,
        old: &NodeEvacuation,
    ) -> Vec<FieldError> {
        let empty = NodeEvacuationStatus::default();
        validate_status(object.status.as_ref().unwrap_or(&empty), old.status.as_ref().unwrap_or(&empty))
    }

    async fn prepare_for_delete(
        &self,
        context: &RequestContext,
        _: DeleteContext,
        object: &mut NodeEvacuation,
    ) -> Result<(), ApiError> {
        if holds_nothing(object) || is_expired(object, context.now) {
            return Ok(());
        }
        self.require_ownership(context, object, "delete a drain that has not ended or holds nodes").await
    }

    /// The reserve is for users who may override every drain. Each creator of a cluster-scoped object may
    /// create it everywhere, so that right would reserve nothing.
    /// The drains of rules have no part in it: the controller creates them, for users.
    async fn may_use_reserve(
        &self,
        context: &RequestContext,
        object: &NodeEvacuation,
        _: Option<&NodeEvacuation>,
    ) -> Result<bool, ApiError> {
        if owner_rule(object).is_some() {
            return Ok(false);
        }
        self.rights.may_override_in_cluster(context, NodeEvacuation::PLURAL, "").await
    }

    /// Each user has a share, so that no user keeps others from draining.
    fn shared_by(&self, object: &NodeEvacuation) -> Option<String> {
        object.status.as_ref()?.requester.as_ref().map(|requester| requester.user.clone())
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        table::SELECTABLE_FIELDS
    }

    fn field(&self, object: &NodeEvacuation, field: &str) -> String {
        table::field(object, field)
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, object: &NodeEvacuation) -> Vec<serde_json::Value> {
        table::cells(object)
    }
}

fn is_finished(drain: &NodeEvacuation) -> bool {
    drain.status.as_ref().is_some_and(|status| status.is_true(DrainConditionType::Finished))
}
