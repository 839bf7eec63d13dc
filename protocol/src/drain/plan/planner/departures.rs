//! Nodes that leave their drain before its end: deleted ones, ones that another of their name replaced, and
//! ones that somebody uncordoned.

use evacuation_api::{CordonOwner, DrainVerdict, DrainedNode, DrainedNodePhase, Requester};
use k8s_openapi::api::core::v1::Node;

use super::{DrainAct, NodePods, Planner, PodJudgement, cordon, counts, nodes};
use crate::{
    drain::verdict::{REMOVAL_SECONDS, summarize},
    time::after,
};

impl<'w, 'a> Planner<'_, 'w, 'a> {
    /// Follows the pods of a node that was deleted until Kubernetes has removed them, whether the drain had
    /// begun to ask them or not. The pods of a node that registered again live on, and are left alone.
    pub(super) fn follow_deleted(
        &mut self,
        node: &mut DrainedNode,
        pods: &NodePods<'w, 'a>,
        entry: &Requester,
    ) -> Vec<PodJudgement> {
        let message = nodes::deleted(node, &self.world.nodes, self.now);
        if pods.is_empty() {
            counts::none_left(node, &pods.present());
            nodes::gone(node, message);
            return Vec::new();
        }
        if self.world.nodes.iter().any(|live| live.metadata.name.as_ref() == Some(&node.name)) {
            let undo = pods.withdrawals();
            let verb = if undo.is_empty() { "left" } else { "leaves" };
            self.withdraw(node, undo, format!("{message}; the drain {verb} the pods there alone"));
            return Vec::new();
        }
        let judgements = self.judge(node, pods);
        let summary = summarize(&judgements, self.now);
        self.count(node, summary.counts, pods);
        node.cordoned = CordonOwner::No;
        node.verdict = summary.verdict;
        node.message = Some(summary.message);
        let limit = node.deleted_time.map(|time| after(time.0, REMOVAL_SECONDS));
        if limit.is_none_or(|limit| limit <= self.now) {
            let overdue = entry.deadline.is_some_and(|deadline| deadline.time() <= self.now);
            let ends = overdue && pods.in_progress() == 0;
            node.phase = if ends { DrainedNodePhase::Failed } else { pods.phase() };
        }
        if node.phase == DrainedNodePhase::Failed {
            self.tell_failure(node, &judgements);
        }
        judgements
    }

    /// Takes the requests back on a node that someone else uncordoned, and then leaves the node alone.
    pub(super) fn take_back(&mut self, node: &mut DrainedNode, live: &'a Node, pods: &NodePods<'w, 'a>) {
        let name = self.drain.metadata.name.as_deref().unwrap_or_default();
        let mut undo = pods.withdrawals();
        if undo.is_empty() && cordon::is_held(live, name) {
            undo.push(DrainAct::Release(live));
        }
        let verb = if undo.is_empty() { "took" } else { "takes" };
        self.withdraw(node, undo, format!("it was uncordoned, so the drain {verb} its requests back"));
    }

    /// Leaves a node alone: its pods are no longer to move, and its drain is over when nothing is left to
    /// undo.
    fn withdraw(&mut self, node: &mut DrainedNode, undo: Vec<DrainAct<'a>>, message: String) {
        counts::leave(node);
        node.message = Some(message);
        node.verdict = DrainVerdict::Canceled;
        if undo.is_empty() {
            node.phase = DrainedNodePhase::Withdrawn;
            node.cordoned = CordonOwner::No;
            node.verdict = DrainVerdict::Failed;
        }
        self.acts.extend(undo);
    }
}

/// Returns the message of a node whose requests are being taken back.
pub(super) fn withdrawn(nodes: &[DrainedNode]) -> Option<String> {
    let node = nodes.iter().find(|node| node.is_being_left())?;
    Some(format!("{}: {}", node.name, node.message.as_deref().unwrap_or_default()))
}
