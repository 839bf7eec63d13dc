//! The two kinds that carry questions: SelfEvacuations for a pod itself, Evacuations for a responder with a
//! name.

use std::fmt::Debug;

use evacuation_api::{
    ConditionType, Evacuation, EvacuationSpec, EvacuationStatus, ResponderStatus, SelfEvacuation,
};
use serde::de::DeserializeOwned;

/// A kind that carries questions.
pub(crate) trait Source:
    kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    fn spec(&self) -> &EvacuationSpec;
    fn status(&self) -> Option<&EvacuationStatus>;

    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    fn responder(&self, name: &str) -> Option<&ResponderStatus> {
        self.status()?.responders.as_ref()?.iter().find(|responder| responder.name == name)
    }

    fn finished(&self) -> bool {
        self.status().is_some_and(|status| status.is_true(ConditionType::Finished))
    }
}

impl Source for Evacuation {
    fn spec(&self) -> &EvacuationSpec {
        &self.spec
    }

    fn status(&self) -> Option<&EvacuationStatus> {
        self.status.as_ref()
    }
}

impl Source for SelfEvacuation {
    fn spec(&self) -> &EvacuationSpec {
        &self.spec
    }

    fn status(&self) -> Option<&EvacuationStatus> {
        self.status.as_ref()
    }
}
