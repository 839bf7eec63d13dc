//! The world of drains as a model checker walks it.
#![allow(clippy::indexing_slicing, reason = "the numbers of a world are within its bounds")]

use evacuation_api::DrainConditionType;
use stateright::{Model, Property};

use super::{
    DrainConfig, DrainLaw,
    objects::drain,
    state::{DrainState, Left},
    step::DEADLINE,
};

/// Maximum number of rounds in which a fair play must come to its end.
const ROUNDS: usize = 40;

/// One step of a world of drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names say it; fields are positions.
pub enum DrainAction {
    /// The leader plans a drain.
    Plan { drain: usize },
    /// The API carries out an act that was begun, also of an earlier leader.
    CarryOut { pending: usize },
    /// An act of an earlier leader is lost.
    Lose { pending: usize },
    /// Another process leads.
    Lead,
    /// An app accepts.
    Accept { pod: usize },
    /// The evictor begins an attempt.
    Evict { pod: usize },
    /// The attempt has an outcome.
    Outcome { pod: usize, goes: bool },
    /// The leader takes entries back whose drain is gone.
    Orphans { pod: usize },
    /// The leader releases a node from drains that are gone.
    Release { node: usize },
    /// The leader forgets the holders of a cordon that a person took away.
    Forget { node: usize },
    /// A person cordons or uncordons a node.
    Person { node: usize, cordon: bool },
    /// A user deletes a drain.
    Delete { drain: usize },
    /// The deadline is reached.
    Pass,
    /// A node is deleted, or one of its name registers.
    Register { node: usize },
    /// Kubernetes collects a pod whose node is no longer there.
    Collect { pod: usize },
    /// A user pauses the first drain, or lets it go on.
    Pause,
}

/// The model of one [`DrainConfig`].
#[derive(Debug)]
pub struct Drains {
    config: DrainConfig,
}

impl Drains {
    /// Returns the model of that world.
    pub fn new(config: DrainConfig) -> Self {
        Self { config }
    }

    /// Returns true when a fair play from that state ends as it should.
    fn ends(&self, state: &DrainState) -> bool {
        let mut state = state.clone();
        state.now = state.now.max(if self.config.deadline { DEADLINE } else { 0 });
        for _ in 0..ROUNDS {
            let before = state.clone();
            for number in 0..state.drains.len() {
                state.plan(&self.config, number);
                while !state.pending.is_empty() {
                    state.carry_out(&self.config, 0);
                }
            }
            for node in 0..state.nodes.len() {
                state.forget_holders(node);
                state.release_from_the_gone(node);
            }
            for pod in 0..state.pods.len() {
                state.withdraw_orphans(pod);
                if state.pods[pod].evacuation.as_ref().is_some_and(|active| active.in_flight) {
                    state.outcome(&self.config, pod, true);
                } else if state.may_evict(&self.config, pod) {
                    state.evict(pod);
                    state.outcome(&self.config, pod, true);
                } else if state.is_lost(&self.config, pod) {
                    state.collect(pod);
                }
            }
            if state == before {
                break;
            }
        }
        let paused = state.drains[0].as_ref().is_some_and(|drain| drain.paused);
        let over = |number: usize| match drain(&self.config, &state, number) {
            None => true,
            Some(drain) if drain.metadata.deletion_timestamp.is_some() => false,
            Some(drain) => {
                let finished = drain.status.is_some_and(|s| s.is_true(DrainConditionType::Finished));
                finished || !self.config.deadline || number != 0 || paused
            }
        };
        let left = state.drains.iter().all(Option::is_none);
        let held = state.nodes.iter().any(|node| node.cordoned && !node.by_person);
        let orphaned = (0..state.nodes.len()).any(|node| !state.gone_holders(node).is_empty());
        let entries = |pod: &super::state::PodState| {
            let mut entries = pod.evacuation.iter().flat_map(|active| &active.entries);
            entries.any(|number| state.drains[*number].is_none())
        };
        let rest = (left && held) || orphaned || state.pods.iter().any(entries);
        (0..state.drains.len()).all(over) && !rest
    }
}

impl Model for Drains {
    type State = DrainState;
    type Action = DrainAction;

    fn init_states(&self) -> Vec<DrainState> {
        vec![DrainState::initial(&self.config)]
    }

    fn actions(&self, state: &DrainState, actions: &mut Vec<DrainAction>) {
        let Left { people, deletions, leaders, registrations, pauses } = state.left;
        for (number, drain) in state.drains.iter().enumerate() {
            if let Some(drain) = drain {
                // One worker carries out what it planned before it plans again.
                if !state.pending.iter().any(|pending| pending.drain == number && !pending.late) {
                    actions.push(DrainAction::Plan { drain: number });
                }
                if deletions > 0 && !drain.deleted {
                    actions.push(DrainAction::Delete { drain: number });
                }
            }
        }
        for (pending, act) in state.pending.iter().enumerate() {
            actions.push(DrainAction::CarryOut { pending });
            if act.late {
                actions.push(DrainAction::Lose { pending });
            }
        }
        if leaders > 0 && state.pending.iter().any(|pending| !pending.late) {
            actions.push(DrainAction::Lead);
        }
        for (number, pod) in state.pods.iter().enumerate() {
            if let Some(active) = &pod.evacuation {
                if !active.accepted {
                    actions.push(DrainAction::Accept { pod: number });
                }
                if state.may_evict(&self.config, number) {
                    actions.push(DrainAction::Evict { pod: number });
                }
                if active.in_flight {
                    actions.extend([true, false].map(|goes| DrainAction::Outcome { pod: number, goes }));
                }
                if active.entries.iter().any(|entry| state.drains[*entry].is_none()) {
                    actions.push(DrainAction::Orphans { pod: number });
                }
            }
        }
        for node in 0..state.nodes.len() {
            let known = &state.nodes[node];
            if !known.cordoned && known.holders.is_some() {
                actions.push(DrainAction::Forget { node });
            }
            if !state.gone_holders(node).is_empty() {
                actions.push(DrainAction::Release { node });
            }
        }
        if people > 0 {
            for (node, known) in state.nodes.iter().enumerate().filter(|(_, node)| !node.deleted) {
                actions.push(DrainAction::Person { node, cordon: !known.cordoned });
            }
        }
        if self.config.deadline && state.now < DEADLINE {
            actions.push(DrainAction::Pass);
        }
        if registrations > 0 {
            actions.extend((0..state.nodes.len()).map(|node| DrainAction::Register { node }));
        }
        let lost = (0..state.pods.len()).filter(|pod| state.is_lost(&self.config, *pod));
        actions.extend(lost.map(|pod| DrainAction::Collect { pod }));
        if pauses > 0 && state.drains[0].is_some() {
            actions.push(DrainAction::Pause);
        }
    }

    fn next_state(&self, last: &DrainState, action: DrainAction) -> Option<DrainState> {
        let mut state = last.clone();
        match action {
            DrainAction::Plan { drain } => state.plan(&self.config, drain),
            DrainAction::CarryOut { pending } => state.carry_out(&self.config, pending),
            DrainAction::Lose { pending } => {
                state.pending.remove(pending);
            }
            DrainAction::Lead => {
                state.left.leaders = state.left.leaders.saturating_sub(1);
                state.change_leader();
            }
            DrainAction::Accept { pod } => {
                if let Some(active) = &mut state.pods[pod].evacuation {
                    active.accepted = true;
                }
            }
            DrainAction::Evict { pod } => state.evict(pod),
            DrainAction::Outcome { pod, goes } => state.outcome(&self.config, pod, goes),
            DrainAction::Orphans { pod } => state.withdraw_orphans(pod),
            DrainAction::Release { node } => state.release_from_the_gone(node),
            DrainAction::Forget { node } => state.forget_holders(node),
            DrainAction::Person { node, cordon } => {
                state.left.people = state.left.people.saturating_sub(1);
                state.person(node, cordon);
            }
            DrainAction::Delete { drain } => {
                state.left.deletions = state.left.deletions.saturating_sub(1);
                if let Some(stored) = &mut state.drains[drain] {
                    stored.deleted = true;
                }
            }
            DrainAction::Pass => state.now = DEADLINE,
            DrainAction::Register { node } => {
                state.left.registrations = state.left.registrations.saturating_sub(1);
                state.register(node);
            }
            DrainAction::Collect { pod } => state.collect(pod),
            DrainAction::Pause => {
                state.left.pauses = state.left.pauses.saturating_sub(1);
                if let Some(stored) = &mut state.drains[0] {
                    stored.paused = !stored.paused;
                }
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(DrainLaw::Cordon.words(), |_, s| !s.broken.contains(&DrainLaw::Cordon)),
            Property::<Self>::always(DrainLaw::Withdrawal.words(), |_, s| {
                !s.broken.contains(&DrainLaw::Withdrawal)
            }),
            Property::<Self>::always(DrainLaw::Cordoned.words(), |_, s| {
                !s.broken.contains(&DrainLaw::Cordoned)
            }),
            Property::<Self>::always(DrainLaw::Last.words(), |_, s| !s.broken.contains(&DrainLaw::Last)),
            Property::<Self>::always(DrainLaw::Drained.words(), |_, s| {
                !s.broken.contains(&DrainLaw::Drained)
            }),
            Property::<Self>::always(DrainLaw::Paused.words(), |_, s| !s.broken.contains(&DrainLaw::Paused)),
            Property::<Self>::always(DrainLaw::Ends.words(), |model, s| {
                !s.pending.is_empty() || model.ends(s)
            }),
        ]
    }
}
