//! The evacuation API server: one strategy per kind.
//!
//! # Flow
//!
//! `machinery-server` authenticates and authorises a request, decodes it and reads the object. [`EvacuationStrategy`]
//! then asks what else the caller may do ([`Authorizer`](machinery_auth::Authorizer)), looks at the live pod ([`Pods`]),
//! and has `evacuation-protocol` decide. [`EvacuationResponderStrategy`] guards who registers whom. [`Respond`] does the same for answers, [`SelfEvacuationView`] shows to a pod what
//! concerns it. [`run`] puts it all together.

mod assemble;
mod caller;
mod etcd_tls;
mod evacuation;
mod evacuation_responder;
mod limits;
mod options;
mod pods;
mod refusal;
mod respond;
mod rights;
mod run;
mod self_evacuation;
mod signal;
mod store;

pub use assemble::{Parts, assemble};
pub use evacuation::EvacuationStrategy;
pub use evacuation_responder::EvacuationResponderStrategy;
pub use limits::LimitOptions;
pub use options::{Options, Storage};
pub use pods::{KubePods, Pods, PodsError};
pub use respond::Respond;
pub use run::{RunError, run};
pub use self_evacuation::SelfEvacuationView;
pub use signal::shutdown_signal;
