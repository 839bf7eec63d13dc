//! The feature: rules, and the nodes with their marks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use chrono::TimeDelta;
use evacuation_api::{
    DrainConditionType, DrainedNodePhase, NodeEvacuation, NodeEvacuationRule, NodeEvacuationRuleStatus,
    RULE_HOLDS_BACK,
};
use evacuation_protocol::{RejectedDrain, RuleAct, RulePlan, RuleWorld, owner_rule, plan_rules};
use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;
use tracing::warn;

use super::acts::RuleActs;
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue,
    ServerClock, View, WorkQueue, WorkerSettings, all_done, due, lock,
};

/// Shortest and longest pause after a failure.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Number of acts that are under way at a time.
const AT_ONCE: usize = 8;
/// Ratio of the worker's rest to the time that planning took.
const REST: u32 = 4;
/// Pause before a drain is opened again that the API server rejected.
const RETRY_REJECTED: TimeDelta = TimeDelta::seconds(30);
/// Maximum of the worker's rest.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The feature that opens and closes the drains of rules. It has one key, for all rules.
pub(crate) struct Rules {
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    acts: RuleActs,
    queue: WorkQueue<ObjectKey>,
    /// The drains that the API server did not let the controller create, by their names.
    rejected: Mutex<BTreeMap<String, RejectedDrain>>,
    /// The drains that this process created and that no status tells of yet: their names, by rule.
    opened: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Time that the last plan took.
    spent: Mutex<Duration>,
}

impl Rules {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            acts: RuleActs::new(cluster),
            queue: WorkQueue::default(),
            rejected: Mutex::default(),
            opened: Mutex::default(),
            spent: Mutex::default(),
        })
    }

    fn wake(&self) {
        self.queue.add(ObjectKey::new("", "rules"));
    }

    /// Carries one rule's plan out: the status first. Returns true when the status changed.
    async fn carry_out(&self, plan: &RulePlan<'_>) -> Result<bool, CallError> {
        let changed = plan.rule.status.as_ref() != Some(&plan.status);
        if changed && plan.rule.metadata.deletion_timestamp.is_none() {
            self.acts.write_status(plan.rule, &plan.status).await?;
            self.announce(plan);
        }
        lock(&self.opened).remove(&plan.rule.name_any());
        let acts: Vec<_> = plan.acts.iter().map(|act| self.act(plan.rule, act)).collect();
        all_done(acts, AT_ONCE).await?;
        Ok(changed)
    }

    /// Carries one act out, and publishes an Event for what users want to know of.
    async fn act(&self, rule: &NodeEvacuationRule, act: &RuleAct<'_>) -> Result<(), CallError> {
        let done = self.acts.act(rule, act).await;
        let notice = match (act, &done) {
            (RuleAct::Open(drain), Ok(())) => {
                lock(&self.opened).entry(rule.name_any()).or_default().insert(drain.name_any());
                Notice::normal("DrainOpened", format!("opened nodeevacuation {}", drain.name_any()))
            }
            (RuleAct::Close(drain), Ok(())) => {
                let name = drain.name_any();
                Notice::normal("DrainClosed", format!("deleted nodeevacuation {name}"))
            }
            (RuleAct::Open(drain), Err(error)) if error.code() != 409 => {
                let why = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
                Notice::warning("DrainNotOpened", format!("nodeevacuation {}: {why}", drain.name_any()))
            }
            _ => return done,
        };
        self.events.send_about(rule.object_ref(&()), notice);
        match (act, done) {
            (RuleAct::Open(drain), Err(error)) if self.rejects(drain, &error) => Ok(()),
            (_, done) => done,
        }
    }

    /// Remembers a drain that the API server rejects until somebody changes something. The status of its rule
    /// tells of it, and the other drains go on. Returns false for a failure that a retry may mend.
    fn rejects(&self, drain: &NodeEvacuation, error: &CallError) -> bool {
        if !matches!(error.code(), 400 | 403 | 422) {
            return false;
        }
        let message = error.status().map_or_else(|| error.to_string(), |status| status.message.clone());
        let retry = self.clock.now() + RETRY_REJECTED;
        lock(&self.rejected).insert(drain.name_any(), RejectedDrain { message, retry });
        self.wake();
        true
    }

    /// Publishes an Event when the rule begins to hold nodes back, and for each notice that cannot be read.
    fn announce(&self, plan: &RulePlan<'_>) {
        for unread in &plan.unread {
            let notice = Notice::warning("NoticeUnread", unread.clone());
            self.events.send_about(plan.rule.object_ref(&()), notice);
        }
        let holds = |status: &NodeEvacuationRuleStatus| {
            let condition = status.conditions.iter().find(|condition| condition.type_ == RULE_HOLDS_BACK);
            condition
                .filter(|condition| condition.status == "True")
                .map(|condition| condition.message.clone())
        };
        let before = plan.rule.status.as_ref().and_then(holds);
        if let (None, Some(message)) = (before, holds(&plan.status)) {
            self.events.send_about(plan.rule.object_ref(&()), Notice::warning(RULE_HOLDS_BACK, message));
        }
    }

    /// Closes drains whose rule is gone: an admin removed its finalizer, or an earlier leader opened them
    /// late. A live read confirms it.
    async fn close_orphans(
        &self,
        rules: &[Arc<NodeEvacuationRule>],
        drains: &[Arc<NodeEvacuation>],
    ) -> Result<(), CallError> {
        let known: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.metadata.uid.as_deref()).collect();
        for drain in drains.iter().filter(|drain| drain.metadata.deletion_timestamp.is_none()) {
            let Some(owner) = owner_rule(drain) else { continue };
            if !known.contains(owner.uid.as_str()) && self.acts.is_gone(&owner.name, &owner.uid).await? {
                self.acts.close(drain).await?;
            }
        }
        Ok(())
    }
}

/// The part of a drain that its rule depends on. `None` for a drain of no rule.
fn of_rule(drain: &NodeEvacuation) -> Option<impl PartialEq + use<>> {
    let owner = owner_rule(drain)?.uid.clone();
    let status = drain.status.as_ref();
    let is_true = |kind| status.is_some_and(|status| status.is_true(kind));
    let node = status.and_then(|status| status.nodes.first());
    Some((
        owner,
        drain.metadata.uid.clone(),
        drain.metadata.deletion_timestamp.is_some(),
        drain.spec.requester.deadline_seconds,
        (is_true(DrainConditionType::Drained), is_true(DrainConditionType::Failed)),
        node.map(|node| (node.uid.clone(), node.phase == DrainedNodePhase::Gone)),
    ))
}

/// The part of a node in which a mark or a notice can be.
fn marks(node: &Node) -> impl PartialEq + use<> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let conditions = conditions
        .into_iter()
        .map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone(), c.last_transition_time.clone()));
    (
        node.metadata.uid.clone(),
        node.metadata.labels.clone(),
        node.metadata.annotations.clone(),
        node.spec.as_ref().and_then(|spec| spec.taints.clone()),
        conditions.collect::<Vec<_>>(),
    )
}

/// The part of a rule that this feature does not write.
fn wanted(rule: &NodeEvacuationRule) -> impl PartialEq + use<> {
    (rule.metadata.uid.clone(), rule.metadata.deletion_timestamp.clone(), rule.spec.clone())
}

/// Returns true if a part of the object differs before and after the change.
fn differs<K, P: PartialEq>(change: &Change<K>, part: impl Fn(&K) -> P) -> bool {
    change.old.as_deref().map(&part) != change.new.as_deref().map(&part)
}

#[async_trait]
impl Feature for Rules {
    fn name(&self) -> &'static str {
        "rule"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::NodeEvacuationRules, Kind::NodeEvacuations, Kind::Nodes]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 1, pause: PAUSE }
    }

    fn rest(&self) -> Duration {
        (*lock(&self.spent) * REST).min(LONGEST_REST)
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        let concerns = match event {
            ClusterEvent::NodeEvacuationRule(change) => differs(change, wanted),
            ClusterEvent::NodeEvacuation(change) => differs(change, of_rule),
            ClusterEvent::Node(change) => {
                self.view.index().rules().next().is_some() && differs(change, marks)
            }
            _ => false,
        };
        if concerns {
            self.wake();
        }
    }

    fn resync(&self) {
        self.wake();
    }

    fn end_term(&self) {
        // Whoever leads next tells of them.
        lock(&self.opened).clear();
    }

    async fn reconcile(&self, _: &ObjectKey) -> Result<Requeue, CallError> {
        let (began, now) = (Instant::now(), self.clock.now());
        let (rules, nodes, drains) = {
            let index = self.view.index();
            let rules: Vec<_> = index.rules().cloned().collect();
            let drains: Vec<_> = index.drains().map(|(_, drain)| Arc::clone(drain)).collect();
            let nodes: Vec<_> = if rules.is_empty() { Vec::new() } else { index.nodes().cloned().collect() };
            (rules, nodes, drains)
        };
        let rejected = {
            let mut rejected = lock(&self.rejected);
            rejected.retain(|name, known| {
                now < known.retry + RETRY_REJECTED && !drains.iter().any(|drain| drain.name_any() == *name)
            });
            rejected.clone()
        };
        let world = RuleWorld {
            rejected,
            opened: lock(&self.opened).values().flatten().cloned().collect(),
            rules: rules.iter().map(AsRef::as_ref).collect(),
            nodes: nodes.iter().map(AsRef::as_ref).collect(),
            drains: drains.iter().map(AsRef::as_ref).collect(),
        };
        let plans = plan_rules(&world, now);
        *lock(&self.spent) = began.elapsed();

        let (mut again, mut failure) = (false, None);
        for plan in &plans {
            match self.carry_out(plan).await {
                Ok(changed) => again |= changed,
                Err(error @ CallError::NotLeading(_)) => return Err(error),
                Err(error) => {
                    let rule = plan.rule.name_any();
                    warn!(rule, error = &error as &dyn std::error::Error, "not carried out");
                    failure.get_or_insert(error);
                }
            }
        }
        self.close_orphans(&rules, &drains).await?;
        if let Some(error) = failure {
            return Err(error);
        }
        if again {
            // The next round opens what was recorded.
            return Ok(Requeue::Now);
        }
        let wake_at = plans.iter().filter_map(|plan| plan.wake_at).min();
        Ok(wake_at.map(|time| due(time, now)).into())
    }
}
