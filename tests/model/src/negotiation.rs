//! The negotiation that a world is about.

use std::{collections::HashMap, sync::Mutex};

use evacuation_api::ResponderEntry;

use crate::Config;

/// The model of one [`Config`].
#[derive(Debug)]
pub struct Negotiation {
    pub(crate) config: Config,
    pub(crate) registered: Vec<ResponderEntry>,
    /// The results of fair plays, by the hash of their start: true when the play ended.
    pub(crate) endings: Mutex<HashMap<u64, bool>>,
}

impl Negotiation {
    /// Returns the model of that world.
    pub fn new(config: Config) -> Self {
        let registered = config.registered();
        Self { config, registered, endings: Mutex::default() }
    }
}
