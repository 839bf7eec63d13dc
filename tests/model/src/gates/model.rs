//! The world of the gateway as a model checker walks it.

use std::hash::{Hash, Hasher};

use evacuation_gateway::fuzzing::{GatewayLaw, GatewayStep, GatewayWorld};
use stateright::{Model, Property};

use super::GateConfig;

/// One step, by its place in the configuration's list.
pub type GateAction = GatewayStep;

/// The model of one [`GateConfig`].
#[derive(Debug)]
pub struct Gates {
    config: GateConfig,
}

/// One state: the world, and how often each kind of step may still be taken.
#[derive(Clone, Debug)]
pub struct GateState {
    /// The world.
    pub world: GatewayWorld,
    left: Vec<u8>,
    key: u64,
}

impl PartialEq for GateState {
    fn eq(&self, other: &Self) -> bool {
        (self.key, &self.left) == (other.key, &other.left)
    }
}

impl Eq for GateState {}

impl Hash for GateState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.key, &self.left).hash(state);
    }
}

impl Gates {
    /// Returns the model of that world.
    pub fn new(config: GateConfig) -> Self {
        Self { config }
    }
}

impl Model for Gates {
    type State = GateState;
    type Action = GateAction;

    fn init_states(&self) -> Vec<GateState> {
        let world = GatewayWorld::new(self.config.settings);
        let key = world.key();
        vec![GateState { world, left: self.config.steps.iter().map(|(_, most)| *most).collect(), key }]
    }

    fn actions(&self, state: &GateState, actions: &mut Vec<GateAction>) {
        if state.world.broken().is_some() {
            return;
        }
        for ((steps, _), left) in self.config.steps.iter().zip(&state.left) {
            if *left > 0 {
                actions.extend(*steps);
            }
        }
    }

    fn next_state(&self, last: &GateState, action: GateAction) -> Option<GateState> {
        let mut next = last.clone();
        let group = self.config.steps.iter().position(|(steps, _)| steps.contains(&action))?;
        let left = next.left.get_mut(group)?;
        *left = left.checked_sub(1)?;
        next.world.step(action);
        next.key = next.world.key();
        (next.key != last.key).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(GatewayLaw::Holds.words(), keeps::<0>),
            Property::always(GatewayLaw::Gone.words(), keeps::<1>),
            Property::always(GatewayLaw::Ends.words(), keeps::<2>),
            Property::always(GatewayLaw::Patience.words(), keeps::<3>),
            Property::always(GatewayLaw::Asked.words(), keeps::<4>),
            Property::always(GatewayLaw::Cheap.words(), keeps::<5>),
        ]
    }
}

/// Returns true when the law of that place in [`GatewayLaw::ALL`] is not broken.
fn keeps<const LAW: usize>(_: &Gates, state: &GateState) -> bool {
    let broken = state.world.broken().map(|(law, _)| law);
    broken.is_none() || broken != GatewayLaw::ALL.get(LAW)
}
