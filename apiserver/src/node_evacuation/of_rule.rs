//! Drains that a rule opens: they belong to the user who created the rule.

use evacuation_api::{DrainUser, NodeEvacuation, NodeEvacuationRule};
use evacuation_protocol::owner_rule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use machinery_server::{ApiError, Reason, RequestContext};
use machinery_validation::FieldErrorKind;

use super::NodeEvacuationStrategy;
use crate::refusal;

/// Cause of a rejected creation: only the controller opens drains for rules.
const FOR_RULE: &str = "NodeEvacuationForRule";
/// Cause of a rejected creation: the recorded groups of the rule's user no longer count.
const GROUPS_ENDED: &str = "RecordedGroupsEnded";

impl NodeEvacuationStrategy {
    /// Records the rule's user as the requester of a drain that names a rule as its controller. The caller
    /// needs the verb `override`, because it acts for another user.
    pub(super) async fn act_for_rule(
        &self,
        context: &RequestContext,
        drain: &mut NodeEvacuation,
    ) -> Result<(), ApiError> {
        let Some(owner) = owner_rule(drain).cloned() else { return Ok(()) };
        let name = drain.metadata.name.clone().unwrap_or_default();
        if !self.rights.may_override_in_cluster(context, NodeEvacuation::PLURAL, &name).await? {
            let why = format!(
                "User {:?} cannot open a drain for nodeevacuationrule {:?}: it takes the verb override on \
                 nodeevacuations.evacuation.dev",
                context.user.name, owner.name
            );
            return Err(refusal::forbidden_of(NodeEvacuation::PLURAL, &name, &why).with_cause(FOR_RULE, why));
        }
        let rule = self.rule_of(&owner).await?;
        let Some(recorded) = rule.status.and_then(|status| status.requester) else { return Ok(()) };
        // The rule can be years old, and its user without the rights that the drain needs.
        let user = self.term.judged(&recorded, context.now);
        let requester = DrainUser { groups: user.groups.clone(), ..recorded.clone() };
        drain.status.get_or_insert_default().requester = Some(requester);
        match self.require_rights(&user, drain).await {
            Err(error) if error.reason() == Reason::Forbidden && self.term.end(&recorded) <= context.now => {
                let why = format!(
                    "the groups of user {:?} were recorded at {} and no longer count, and without them the user \
                     may not drain: the user must write nodeevacuationrule {:?} again",
                    recorded.user,
                    recorded.time.0.format("%Y-%m-%dT%H:%M:%SZ"),
                    owner.name
                );
                Err(refusal::forbidden_of(NodeEvacuation::PLURAL, &name, &why).with_cause(GROUPS_ENDED, why))
            }
            judged => judged,
        }
    }

    /// Requires the verb `override` for a change of the rule that a drain names as its controller: the rule
    /// deletes the drains that are its own.
    pub(super) async fn require_same_rule(
        &self,
        context: &RequestContext,
        drain: &NodeEvacuation,
        old: &NodeEvacuation,
    ) -> Result<(), ApiError> {
        let uid = |drain| owner_rule(drain).map(|owner: &OwnerReference| owner.uid.as_str());
        if uid(drain) == uid(old) {
            return Ok(());
        }
        let name = drain.metadata.name.clone().unwrap_or_default();
        if self.rights.may_override_in_cluster(context, NodeEvacuation::PLURAL, &name).await? {
            return Ok(());
        }
        let why = format!(
            "User {:?} cannot change the nodeevacuationrule in metadata.ownerReferences: it takes the verb \
             override on nodeevacuations.evacuation.dev",
            context.user.name
        );
        Err(refusal::forbidden_of(NodeEvacuation::PLURAL, &name, &why).with_cause(FOR_RULE, why))
    }

    /// Returns the rule of that reference.
    async fn rule_of(&self, owner: &OwnerReference) -> Result<NodeEvacuationRule, ApiError> {
        let rule = match self.rules.get("", &owner.name).await {
            Ok(rule) => Some(rule),
            Err(error) if error.reason() == Reason::NotFound => None,
            Err(error) => return Err(error),
        };
        let rule = rule.filter(|rule| rule.metadata.uid.as_ref() == Some(&owner.uid));
        rule.ok_or_else(|| unknown_rule(&owner.name))
    }
}

fn unknown_rule(rule: &str) -> ApiError {
    let message = format!("there is no {} {rule:?} of that UID", NodeEvacuationRule::KIND);
    refusal::invalid(FieldErrorKind::NotFound, &["metadata", "ownerReferences"], message)
}
