//! The plan of one rule.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{
    DrainConditionType, MAX_DRAINED_NODES, MarkedNode, MarkedNodePhase, NodeEvacuation, NodeEvacuationRule,
    nodes_allowed,
};
use k8s_openapi::api::core::v1::Node;

use super::{
    deadline::{Deadline, change, deadline, deadline_of, seconds_from},
    mark::{Mark, marks_of},
    owner::{drain_name, drain_of, drained_node, is_of_an_earlier_node, is_open, owns},
    plan::{RuleAct, RulePlan, RuleWorld},
    report::{limit_text, report},
};
use crate::{
    status::truncated,
    time::{sooner, stamp},
};

/// Number of places in a status that only nodes take whose condition has no time: such a node waits from when
/// it is listed, so that a list full of nodes with a mark would make it wait for ever.
const WAITING_NODES: usize = MAX_DRAINED_NODES / 10;

/// The phase of a node, and its reason in words.
type Outcome = (MarkedNodePhase, Option<String>);

/// The state of one planning.
pub(super) struct Planner<'w, 'a> {
    world: &'w RuleWorld<'a>,
    rule: &'a NodeEvacuationRule,
    now: DateTime<Utc>,
    /// The rule's drains, by the names of their nodes.
    own: BTreeMap<&'a str, &'a NodeEvacuation>,
    /// The nodes of the stored status, by their names.
    stored: BTreeMap<&'a str, &'a MarkedNode>,
    allowed: usize,
    acts: Vec<RuleAct<'a>>,
    unread: Vec<String>,
    wake_at: Option<DateTime<Utc>>,
}

/// The nodes of a rule.
#[derive(Default)]
struct Marked<'a> {
    /// Those with a mark: those that are known first, then the longest marked.
    nodes: Vec<(&'a Node, MarkedNode)>,
    /// Those with only a condition that is to be seen for longer: known ones and the longest seen first.
    seen: Vec<MarkedNode>,
    /// Time at which another will have a mark.
    next: Option<DateTime<Utc>>,
}

impl<'w, 'a> Planner<'w, 'a> {
    pub(super) fn new(world: &'w RuleWorld<'a>, rule: &'a NodeEvacuationRule, now: DateTime<Utc>) -> Self {
        let own = world.drains.iter().filter(|drain| owns(rule, drain));
        let own = own.filter_map(|drain| Some((drained_node(drain)?, *drain))).collect();
        let stored = rule.status.iter().flat_map(|status| &status.nodes);
        let stored = stored.map(|node| (node.name.as_str(), node)).collect();
        let limit = rule.spec.max_nodes.as_ref();
        // The server fills the limit in.
        let allowed = limit.and_then(|limit| nodes_allowed(limit, world.nodes.len())).unwrap_or(1);
        Self { world, rule, now, own, stored, allowed, acts: Vec::new(), unread: Vec::new(), wake_at: None }
    }

    /// Returns the plan. `drained` are the nodes under the drains of rules; the plan adds to them.
    pub(super) fn plan(mut self, drained: &mut BTreeSet<&'a str>) -> RulePlan<'a> {
        let Marked { nodes: mut marked, seen: mut waiting, next } = self.marked();
        let all = marked.len() + waiting.len();
        marked.truncate(self.places(&marked, waiting.len()));
        let mut nodes: Vec<MarkedNode> =
            marked.into_iter().map(|(node, entry)| self.continue_with(node, entry, drained)).collect();
        let wake_at = sooner(next, self.wake_at);
        let kept: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let unmarked = self.own.iter().filter(|(name, drain)| !kept.contains(*name) && is_open(drain));
        let closes = unmarked.map(|(_, drain)| RuleAct::Close(drain));
        let acts = self.acts.into_iter().chain(closes).collect();
        waiting.truncate(MAX_DRAINED_NODES.saturating_sub(nodes.len()));
        nodes.extend(waiting);
        let left_over = all.saturating_sub(nodes.len());
        let status = report(self.rule, nodes, left_over, self.allowed, self.now);
        RulePlan { rule: self.rule, status, acts, unread: self.unread, wake_at }
    }

    /// Returns the number of nodes with a mark that the status lists: those that it lists already, and others
    /// as long as they leave places for the nodes that wait.
    fn places(&self, marked: &[(&Node, MarkedNode)], waiting: usize) -> usize {
        let listed = marked.iter().filter(|(_, entry)| self.stored.contains_key(entry.name.as_str())).count();
        let room = MAX_DRAINED_NODES.saturating_sub(waiting.min(WAITING_NODES));
        listed.max(room).min(MAX_DRAINED_NODES)
    }

    /// Returns the nodes that have a mark, or will have one.
    fn marked(&self) -> Marked<'a> {
        let mut all = Marked::default();
        for node in &self.world.nodes {
            let found = marks_of(self.rule, node, self.known(node), self.now);
            all.next = sooner(all.next, found.next);
            if found.now.is_empty() {
                all.seen.extend(found.seen.and_then(|(mark, due)| {
                    let message = format!(
                        "the condition has no lastTransitionTime, and counts as true since it was first seen: \
                         waits until {}",
                        due.to_rfc3339_opts(SecondsFormat::Secs, true)
                    );
                    let (phase, message) = (MarkedNodePhase::Pending, Some(message));
                    let entry = self.entry(node, vec![mark])?;
                    Some(MarkedNode { phase, message, node_evacuation: None, ..entry })
                }));
            }
            all.nodes.extend(self.entry(node, found.now).map(|entry| (*node, entry)));
        }
        let is_new = |entry: &MarkedNode| !self.stored.contains_key(entry.name.as_str());
        all.seen.sort_by_cached_key(|entry| (is_new(entry), entry.since, entry.name.clone()));
        all.nodes.sort_by_cached_key(|(_, entry)| (is_new(entry), entry.since, entry.name.clone()));
        all
    }

    /// Returns the entry of a node in the stored status.
    fn known(&self, node: &Node) -> Option<&'a MarkedNode> {
        let known = self.stored.get(node.metadata.name.as_deref()?)?;
        Some(*known).filter(|known| known.uid == node.metadata.uid)
    }

    /// Returns the entry of a node with marks: the stored one while its mark is still there.
    fn entry(&self, node: &Node, marks: Vec<Mark>) -> Option<MarkedNode> {
        let name = node.metadata.name.as_deref()?;
        let known = self.known(node);
        let same = known.and_then(|known| marks.iter().find(|mark| mark.text == known.mark));
        let Mark { text: mark, since } = same.cloned().or_else(|| marks.into_iter().next())?;
        let seen = known.filter(|known| known.mark == mark).map(|known| known.since);
        let since = since.map(stamp).or(seen).unwrap_or_else(|| stamp(self.now));
        Some(MarkedNode {
            name: name.to_owned(),
            uid: node.metadata.uid.clone(),
            mark,
            since,
            phase: known.map(|known| known.phase).unwrap_or_default(),
            node_evacuation: known.and_then(|known| known.node_evacuation.clone()),
            deadline: None,
            notice_problem: None,
            message: None,
        })
    }

    /// Returns the next state of a node, and adds its acts.
    fn continue_with(
        &mut self,
        node: &'a Node,
        mut entry: MarkedNode,
        drained: &mut BTreeSet<&'a str>,
    ) -> MarkedNode {
        let Deadline { time, problem, is_default } =
            deadline(self.rule.spec.deadline.as_ref(), node, entry.since.0);
        let drain = self.own.get(entry.name.as_str()).copied();
        let current = drain.filter(|drain| is_open(drain) && !is_of_an_earlier_node(drain, node));
        // A notice that was readable once does not cut short what its drain was given.
        let time = current.filter(|_| is_default).and_then(deadline_of).or(time);
        entry.deadline = time.map(stamp);
        let wanted = drain_name(self.rule, node);
        let was_opened = entry.node_evacuation.is_some() || self.world.opened.contains(&wanted);
        let (phase, message) = match (current, drain) {
            (Some(drain), _) => {
                entry.node_evacuation.clone_from(&drain.metadata.name);
                self.follow(drain, time)
            }
            (None, drain) if was_opened && !drain.is_some_and(is_open) => {
                entry.node_evacuation.get_or_insert(wanted);
                let message = "the drain was deleted, or the API server cannot read it; the node is drained again \
                               when the mark comes anew";
                (MarkedNodePhase::Dismissed, Some(message.to_owned()))
            }
            (None, Some(drain)) => {
                entry.node_evacuation = None;
                self.acts.extend(is_open(drain).then_some(RuleAct::Close(drain)));
                (MarkedNodePhase::Pending, Some("waits for the end of an earlier drain".to_owned()))
            }
            (None, None) => self.open(node, &entry, drained),
        };
        let is_told = self.known(node).is_some_and(|known| known.notice_problem == problem);
        if let Some(problem) = problem.as_ref().filter(|_| !is_told) {
            self.unread.push(format!("node {}: {problem}", entry.name));
        }
        entry.phase = phase;
        entry.notice_problem.clone_from(&problem);
        entry.message = message.or(problem);
        entry
    }

    /// Follows an open drain.
    fn follow(&mut self, drain: &'a NodeEvacuation, deadline: Option<DateTime<Utc>>) -> Outcome {
        let is_true = |kind| drain.status.as_ref().is_some_and(|status| status.is_true(kind));
        if is_true(DrainConditionType::Drained) {
            return (MarkedNodePhase::Drained, None);
        }
        if is_true(DrainConditionType::Failed) {
            let message = drain.status.as_ref().and_then(|status| status.message.clone());
            return (MarkedNodePhase::Failed, message);
        }
        let seconds = change(drain, deadline);
        self.acts.extend(seconds.map(|seconds| RuleAct::SetDeadline(drain, seconds)));
        (MarkedNodePhase::Draining, None)
    }

    /// Opens the drain of a node that is recorded, unless something holds it back.
    fn open(&mut self, node: &'a Node, entry: &MarkedNode, drained: &mut BTreeSet<&'a str>) -> Outcome {
        let held = |message: String| (MarkedNodePhase::Held, Some(message));
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let wanted = drain_name(self.rule, node);
        if self.rule.spec.paused {
            return held("the rule is paused".to_owned());
        }
        if self.world.drains.iter().any(|drain| drain.metadata.name.as_ref() == Some(&wanted)) {
            return held(format!("nodeevacuation {wanted} exists, and this rule did not open it"));
        }
        if !drained.contains(name) && drained.len() >= self.allowed {
            return held(limit_text(self.rule, drained.len(), self.world.nodes.len()));
        }
        if let Some(rejected) = self.world.rejected.get(&wanted) {
            // It takes no place from the nodes of other rules.
            if rejected.retry <= self.now {
                self.push_open(node, entry);
            }
            self.wake_at = sooner(self.wake_at, Some(rejected.retry).filter(|retry| self.now < *retry));
            return held(truncated(&format!(
                "the API server rejects nodeevacuation {wanted}: {}",
                rejected.message
            )));
        }
        drained.insert(name);
        let recorded = self.stored.get(name).is_some_and(|known| {
            (&known.uid, &known.mark, known.phase) == (&entry.uid, &entry.mark, MarkedNodePhase::Pending)
        });
        if recorded {
            self.push_open(node, entry);
        }
        (MarkedNodePhase::Pending, None)
    }

    fn push_open(&mut self, node: &Node, entry: &MarkedNode) {
        let seconds = entry.deadline.map(|deadline| seconds_from(self.now, deadline.0));
        self.acts.push(RuleAct::Open(Box::new(drain_of(self.rule, node, &entry.mark, seconds))));
    }
}
