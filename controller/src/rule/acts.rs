//! The acts of rules as requests to the API.

use std::sync::Arc;

use evacuation_api::{NodeEvacuation, NodeEvacuationRule, NodeEvacuationRuleStatus, RULE_FINALIZER};
use evacuation_protocol::{RuleAct, at_deadline};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use tracing::info;

use crate::cluster::{CallError, Cluster, NotLeading, ObjectKey, View, Writer, call};

/// Writer of rules and of the drains that they open.
pub(super) struct RuleActs {
    client: Client,
    writer: Writer,
    view: Arc<View>,
}

impl RuleActs {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { client: cluster.client.clone(), writer: cluster.writer(), view: Arc::clone(&cluster.view) }
    }

    fn rules(&self) -> Result<Api<NodeEvacuationRule>, NotLeading> {
        Ok(Api::all(self.writer.client()?))
    }

    fn drains(&self) -> Result<Api<NodeEvacuation>, NotLeading> {
        Ok(Api::all(self.writer.client()?))
    }

    /// Writes the status of the rule that was decided on.
    pub(super) async fn write_status(
        &self,
        rule: &NodeEvacuationRule,
        status: &NodeEvacuationRuleStatus,
    ) -> Result<(), CallError> {
        let next = NodeEvacuationRule { status: Some(status.clone()), ..rule.clone() };
        let (name, parameters) = (rule.name_any(), PostParams::default());
        let rules = self.rules()?;
        let write = rules.replace_status(&name, &parameters, &next);
        self.view.apply(call(format!("write the status of nodeevacuationrule {name}"), write).await?);
        Ok(())
    }

    /// Carries one act out.
    pub(super) async fn act(&self, rule: &NodeEvacuationRule, act: &RuleAct<'_>) -> Result<(), CallError> {
        match act {
            RuleAct::Open(drain) => self.open(drain).await,
            RuleAct::SetDeadline(drain, seconds) => self.set_deadline(rule, drain, *seconds).await,
            RuleAct::Close(drain) => self.close(drain).await,
            RuleAct::ReleaseFinalizer => self.release(rule).await,
        }
    }

    /// Returns true when the API knows no rule of that name and UID.
    pub(super) async fn is_gone(&self, name: &str, uid: &str) -> Result<bool, CallError> {
        let rules: Api<NodeEvacuationRule> = Api::all(self.client.clone());
        let live = call(format!("read nodeevacuationrule {name}"), rules.get_opt(name)).await?;
        Ok(live.is_none_or(|rule| rule.uid().as_deref() != Some(uid)))
    }

    /// Deletes a drain. Its finalizer holds it until its requests are withdrawn.
    pub(super) async fn close(&self, drain: &NodeEvacuation) -> Result<(), CallError> {
        let name = drain.name_any();
        let preconditions = Preconditions { uid: drain.uid(), resource_version: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let drains = self.drains()?;
        match call(format!("delete nodeevacuation {name}"), drains.delete(&name, &parameters)).await {
            Ok(outcome) => match outcome.left() {
                Some(deleted) => self.view.apply(deleted),
                None => self.forget(drain),
            },
            Err(error) if error.code() == 404 => self.forget(drain),
            Err(error) => return Err(error),
        }
        info!(drain = name, "closed");
        Ok(())
    }

    fn forget(&self, drain: &NodeEvacuation) {
        self.view.remove::<NodeEvacuation>(&ObjectKey::of(drain), drain.metadata.uid.as_deref());
    }

    async fn open(&self, drain: &NodeEvacuation) -> Result<(), CallError> {
        let (name, parameters) = (drain.name_any(), PostParams::default());
        let drains = self.drains()?;
        let create = drains.create(&parameters, drain);
        self.view.apply(call(format!("create nodeevacuation {name}"), create).await?);
        info!(drain = name, "opened");
        Ok(())
    }

    async fn set_deadline(
        &self,
        rule: &NodeEvacuationRule,
        drain: &NodeEvacuation,
        seconds: i64,
    ) -> Result<(), CallError> {
        let (name, mut next) = (drain.name_any(), drain.clone());
        let requester = &mut next.spec.requester;
        requester.deadline_seconds = Some(seconds);
        requester.at_deadline.get_or_insert_with(|| at_deadline(rule));
        let parameters = PostParams::default();
        let drains = self.drains()?;
        let write = drains.replace(&name, &parameters, &next);
        self.view.apply(call(format!("change the deadline of nodeevacuation {name}"), write).await?);
        Ok(())
    }

    async fn release(&self, rule: &NodeEvacuationRule) -> Result<(), CallError> {
        let (name, mut next) = (rule.name_any(), rule.clone());
        next.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != RULE_FINALIZER);
        let parameters = PostParams::default();
        let rules = self.rules()?;
        let write = rules.replace(&name, &parameters, &next);
        match call(format!("release nodeevacuationrule {name}"), write).await {
            Err(error) if error.code() == 404 => Ok(()),
            done => done.map(|_| ()),
        }
    }
}
