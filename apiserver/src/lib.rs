//! The evacuation API server: one strategy per kind.
//!
//! # Flow
//!
//! `machinery-server` authenticates and authorises a request, decodes it and reads the object.
//! [`EvacuationStrategy`] then checks further rights of the caller
//! ([`Authorizer`](machinery_auth::Authorizer)), reads the live pod ([`Pods`]), and calls
//! `evacuation-protocol` to decide. [`EvacuationResponderStrategy`] guards registrations,
//! [`NodeEvacuationStrategy`] guards drains, [`NodeEvacuationRuleStrategy`] the rules that open them, and
//! [`Respond`] guards answers. [`SelfEvacuationView`] shows to a pod its own Evacuations. [`run`] starts
//! everything.

mod admission;
mod assemble;
mod audit;
mod bounded_read;
mod budgets;
mod caller;
mod compaction;
mod drain_warning;
mod etcd_tls;
mod evacuation;
mod evacuation_responder;
mod leader;
mod limits;
mod node_evacuation;
mod node_evacuation_rule;
mod options;
mod pods;
mod refusal;
mod respond;
mod restored;
mod rights;
mod run;
mod run_error;
mod self_evacuation;
mod settings;
mod store;

pub use admission::AdmissionFlags;
pub use assemble::{Parts, assemble};
pub use audit::AuditOptions;
pub use budgets::Budgets;
pub use evacuation::EvacuationStrategy;
pub use evacuation_responder::EvacuationResponderStrategy;
pub use leader::Leader;
pub use limits::LimitOptions;
pub use node_evacuation::{KubeSights, NodeEvacuationStrategy, Plan, SightError, Sights};
pub use node_evacuation_rule::{GroupTerm, NodeEvacuationRuleStrategy};
pub use options::{Options, Storage};
pub use pods::{KubePods, Pods, PodsError};
pub use respond::Respond;
pub use run::run;
pub use run_error::RunError;
pub use self_evacuation::SelfEvacuationView;
pub use settings::{CurrentSettings, SettingsError, SettingsOptions};
