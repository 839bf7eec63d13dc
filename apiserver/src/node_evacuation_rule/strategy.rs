//! The hooks of the kind NodeEvacuationRule.

use std::sync::Arc;

use async_trait::async_trait;
use evacuation_api::{
    DeadlineAction, DrainUser, NodeEvacuationRule, NodeEvacuationRuleSpec, NodeEvacuationRuleStatus,
    NoticeDeadline, RULE_FINALIZER, Timestamp, default_node_evacuation_rule, validate_node_evacuation_rule,
};
use machinery_auth::Authorizer;
use machinery_server::{ApiError, Column, DeleteContext, KindInfo, Reason, RequestContext, Strategy};
use machinery_validation::FieldError;

use super::{
    groups::{GroupTerm, without_recorded_groups},
    status::validate_status,
    table,
};
use crate::{CurrentSettings, drain_warning::warn, restored::pause_rule, rights::Rights};

/// Cause of a rejected change or deletion: the rule belongs to another user.
const OF_ANOTHER: &str = "NodeEvacuationRuleOfAnother";

/// The rules of the kind NodeEvacuationRule.
///
/// # Guarantees
///
/// - A rule opens drains in the name of the user who created it. So this user needs the rights of a drain:
///   to evict pods in all namespaces and to patch nodes, and with `atDeadline: Delete` to delete pods.
/// - `status.requester` is that user. No writer changes it. Writes of the user itself renew the groups, which
///   count for a time only.
/// - Another user needs the verb `override` to change the rule, or to delete it. To pause a rule, the verb
///   of the request is enough.
/// - A rule that is restored from a backup is created paused.
pub struct NodeEvacuationRuleStrategy {
    rights: Rights,
    term: GroupTerm,
    settings: Arc<CurrentSettings>,
}

impl NodeEvacuationRuleStrategy {
    /// Returns the strategy. `authorizer` checks rights beyond a request's verb. The recorded groups of a
    /// rule's user count for `term`. `settings` has the default deadline.
    pub fn new(authorizer: Arc<dyn Authorizer>, term: GroupTerm, settings: Arc<CurrentSettings>) -> Self {
        Self { rights: Rights::new(authorizer), term, settings }
    }

    /// Warns of a rule whose user has the rights of a drain by groups alone: it opens no drain after a time.
    async fn warn_of_groups(&self, context: &RequestContext, rule: &NodeEvacuationRule) {
        let Some(recorded) = rule.status.as_ref().and_then(|status| status.requester.as_ref()) else {
            return;
        };
        let lasting = without_recorded_groups(&recorded.user);
        let deletes = rule.spec.template.requester.at_deadline == Some(DeadlineAction::Delete);
        let object = (NodeEvacuationRule::PLURAL, name(rule));
        let refused = match self.rights.require_drain(&lasting, object, deletes).await {
            Err(error) => error.reason() == Reason::Forbidden,
            Ok(()) => false,
        };
        if refused {
            context.warnings.add(format!(
                "status.requester: the rights of user {:?} come from its groups, which count until {}: write \
                 the rule again before, or create it as a service account",
                recorded.user,
                self.term.end(recorded).format("%Y-%m-%d")
            ));
        }
    }

    async fn require_rights(
        &self,
        context: &RequestContext,
        rule: &NodeEvacuationRule,
    ) -> Result<(), ApiError> {
        let deletes = rule.spec.template.requester.at_deadline == Some(DeadlineAction::Delete);
        self.rights.require_drain(&context.user, (NodeEvacuationRule::PLURAL, name(rule)), deletes).await
    }

    async fn require_ownership(
        &self,
        context: &RequestContext,
        rule: &NodeEvacuationRule,
        act: &str,
    ) -> Result<(), ApiError> {
        let owner = rule.status.as_ref().and_then(|status| status.requester.as_ref());
        let object = (NodeEvacuationRule::PLURAL, name(rule));
        self.rights.require_ownership(context, object, owner, act, OF_ANOTHER).await
    }
}

#[async_trait]
impl Strategy for NodeEvacuationRuleStrategy {
    type Object = NodeEvacuationRule;

    fn info(&self) -> KindInfo {
        KindInfo {
            namespaced: false,
            singular: "nodeevacuationrule",
            short_names: &["nodeevacrule"],
            categories: &[],
        }
    }

    fn default(&self, _: &RequestContext, object: &mut NodeEvacuationRule) {
        default_node_evacuation_rule(object);
    }

    /// Records the caller, and adds the finalizer with which the controller closes the drains. A rule that
    /// was restored is paused.
    fn prepare_for_create(&self, context: &RequestContext, object: &mut NodeEvacuationRule) {
        pause_rule(context, object);
        let requester = DrainUser {
            user: context.user.name.clone(),
            groups: context.user.groups.clone(),
            time: Timestamp(context.now),
        };
        object.status = Some(NodeEvacuationRuleStatus {
            requester: Some(requester),
            ..NodeEvacuationRuleStatus::default()
        });
        let finalizers = object.metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == RULE_FINALIZER) {
            finalizers.push(RULE_FINALIZER.to_owned());
        }
        let spec = &mut object.spec;
        if !has_sure_deadline(spec)
            && let Some(warning) = self.settings.get().give_drain_deadline(&mut spec.template.requester)
        {
            context.warnings.add(format!("spec.template.{warning}"));
        }
        warn_of_notice(context, spec);
        warn_of_reserve(context, spec);
    }

    fn validate(&self, _: &RequestContext, object: &NodeEvacuationRule) -> Vec<FieldError> {
        validate_node_evacuation_rule(object)
    }

    async fn admit_create(
        &self,
        context: &RequestContext,
        object: &mut NodeEvacuationRule,
    ) -> Result<(), ApiError> {
        self.require_rights(context, object).await?;
        warn(context, &object.spec.template.spec_for(""), None, "spec.template");
        self.warn_of_groups(context, object).await;
        Ok(())
    }

    /// Renews the groups of the rule's user when that user writes the rule.
    fn prepare_for_update(
        &self,
        context: &RequestContext,
        object: &mut NodeEvacuationRule,
        old: &NodeEvacuationRule,
    ) -> Result<(), ApiError> {
        object.status.clone_from(&old.status);
        if let Some(recorded) = object.status.as_mut().and_then(|status| status.requester.as_mut())
            && let Some(renewed) = self.term.renewed(recorded, &context.user, context.now)
        {
            *recorded = renewed;
        }
        let known = &old.spec.template.requester;
        let spec = &mut object.spec;
        if !has_sure_deadline(spec)
            && let Some(warning) =
                self.settings.get().keep_drain_deadline(&mut spec.template.requester, known)
        {
            context.warnings.add(format!("spec.template.{warning}"));
        }
        warn_of_notice(context, spec);
        warn_of_reserve(context, spec);
        Ok(())
    }

    fn validate_update(
        &self,
        _: &RequestContext,
        object: &NodeEvacuationRule,
        _: &NodeEvacuationRule,
    ) -> Vec<FieldError> {
        validate_node_evacuation_rule(object)
    }

    async fn admit_update(
        &self,
        context: &RequestContext,
        object: &mut NodeEvacuationRule,
        old: &NodeEvacuationRule,
    ) -> Result<(), ApiError> {
        if !opens_more(&object.spec, &old.spec) {
            return Ok(());
        }
        self.require_ownership(context, old, "change the rule").await?;
        self.require_rights(context, object).await?;
        let (new, old) = (object.spec.template.spec_for(""), old.spec.template.spec_for(""));
        warn(context, &new, Some(&old), "spec.template");
        Ok(())
    }

    fn prepare_for_status_update(
        &self,
        _: &RequestContext,
        object: &mut NodeEvacuationRule,
        old: &NodeEvacuationRule,
    ) -> Result<(), ApiError> {
        object.spec = old.spec.clone();
        let status = object.status.get_or_insert_default();
        status.requester = old.status.as_ref().and_then(|old| old.requester.clone());
        Ok(())
    }

    fn validate_status_update(
        &self,
        _: &RequestContext,
        object: &NodeEvacuationRule,
        _: &NodeEvacuationRule,
    ) -> Vec<FieldError> {
        object.status.as_ref().map(validate_status).unwrap_or_default()
    }

    async fn prepare_for_delete(
        &self,
        context: &RequestContext,
        _: DeleteContext,
        object: &mut NodeEvacuationRule,
    ) -> Result<(), ApiError> {
        self.require_ownership(context, object, "delete the rule").await
    }

    /// The reserve is for users who may override every rule, as for drains.
    async fn may_use_reserve(
        &self,
        context: &RequestContext,
        _: &NodeEvacuationRule,
        _: Option<&NodeEvacuationRule>,
    ) -> Result<bool, ApiError> {
        self.rights.may_override_in_cluster(context, NodeEvacuationRule::PLURAL, "").await
    }

    /// Each user has a share, as for drains.
    fn shared_by(&self, object: &NodeEvacuationRule) -> Option<String> {
        object.status.as_ref()?.requester.as_ref().map(|requester| requester.user.clone())
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, object: &NodeEvacuationRule) -> Vec<serde_json::Value> {
        table::cells(object)
    }
}

/// Returns true when a change does more than pause the rule. To resume it is to open drains.
fn opens_more(spec: &NodeEvacuationRuleSpec, old: &NodeEvacuationRuleSpec) -> bool {
    let resumes = old.paused && !spec.paused;
    resumes || NodeEvacuationRuleSpec { paused: old.paused, ..spec.clone() } != *old
}

/// Returns true when each drain of the rule gets a deadline from the rule, whatever the notice of its node
/// says.
fn has_sure_deadline(spec: &NodeEvacuationRuleSpec) -> bool {
    spec.deadline.as_ref().is_some_and(NoticeDeadline::is_sure)
}

/// Warns of a rule whose drains have no deadline when their notice cannot be read.
fn warn_of_notice(context: &RequestContext, spec: &NodeEvacuationRuleSpec) {
    let unsure = spec.deadline.is_some() && !has_sure_deadline(spec);
    if unsure && spec.template.requester.deadline_seconds.is_none() {
        let warning = "spec.deadline: a notice without a readable time gives no deadline: set defaultSeconds";
        context.warnings.add(warning.to_owned());
    }
}

/// Warns of a rule whose reserve takes the whole time from a mark to the deadline.
fn warn_of_reserve(context: &RequestContext, spec: &NodeEvacuationRuleSpec) {
    let Some(deadline) = &spec.deadline else { return };
    let reserve = deadline.reserve_seconds.filter(|reserve| *reserve > 0);
    let counted = [("afterSeconds", deadline.after_seconds), ("defaultSeconds", deadline.default_seconds)];
    for (field, seconds) in counted {
        if let (Some(reserve), Some(seconds)) = (reserve, seconds)
            && reserve >= seconds
        {
            context.warnings.add(format!(
                "spec.deadline.reserveSeconds: {reserve} is not below {field}, {seconds}: a drain with that \
                 deadline reaches it as soon as it is opened"
            ));
        }
    }
}

fn name(rule: &NodeEvacuationRule) -> &str {
    rule.metadata.name.as_deref().unwrap_or_default()
}
