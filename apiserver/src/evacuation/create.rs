//! Creation: rules 2, 3 and 5.

use evacuation_api::{DeadlineAction, Evacuation, Requester};
use evacuation_protocol::{Actor, RequesterEdit, begin, check_creation, target_problem, target_warning};
use machinery_server::{ApiError, Cause, RequestContext};
use machinery_validation::FieldErrorKind;

use super::{EvacuationStrategy, commit::commit, warning::warn_of_entries};
use crate::refusal;

impl EvacuationStrategy {
    /// Authorises the caller, reads the pod and pins its UID, and records the requesters.
    ///
    /// The order matters: a caller without rights learns neither which pods exist nor their UIDs.
    pub(super) async fn admit_new(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
    ) -> Result<(), ApiError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let target = &object.spec.target.pod.name;
        self.rights.require_evict(context, &name, target).await?;
        if object.spec.requesters.iter().any(deletes) {
            self.rights.require_delete(context, &name, target).await?;
        }
        if let Err(error) = check_creation(&object.spec.requesters, &context.user.name)
            && !self.rights.may_override(context, &name).await?
        {
            return Err(refusal::edit(&name, &error));
        }

        let read = self.pods.get(&context.namespace, target).await;
        let pod = read
            .map_err(|error| refusal::unavailable("the target pod cannot be read at the moment", &error))?
            .ok_or_else(|| no_such_pod(target))?;
        if let Some(problem) = target_problem(&pod) {
            return Err(invalid_target(FieldErrorKind::Forbidden, problem.to_string()));
        }
        // Every stored pod has a UID.
        let uid = pod.metadata.uid.clone().ok_or_else(|| no_such_pod(target))?;
        if let Some(given) = object.spec.target.pod.uid.as_ref().filter(|given| **given != uid) {
            return Err(other_pod(&name, target, given, &uid));
        }
        for warning in target_warning(&pod) {
            context.warnings.add(warning.to_string());
        }

        object.spec.target.pod.uid = Some(uid);
        let status = begin(&object.spec, &context.user.name, &context.user.groups, context.now);
        let edit = RequesterEdit::creation(&object.spec.requesters);
        warn_of_entries(context, &object.spec, &status, &edit);
        commit(object, None, status, Actor::Server, context.now)
    }
}

fn deletes(requester: &Requester) -> bool {
    requester.at_deadline == Some(DeadlineAction::Delete)
}

fn no_such_pod(name: &str) -> ApiError {
    invalid_target(FieldErrorKind::NotFound, format!("pod {name:?}"))
}

fn invalid_target(kind: FieldErrorKind, message: String) -> ApiError {
    refusal::invalid(kind, &["spec", "target", "pod", "name"], message)
}

/// Returns the conflict of a given UID: another pod of this name has replaced the intended one.
fn other_pod(evacuation: &str, pod: &str, given: &str, live: &str) -> ApiError {
    let why = format!("pod {pod:?} has the UID {live:?}, not {given:?}");
    let field = "spec.target.pod.uid".to_owned();
    let cause = Cause { reason: "WrongPod".to_owned(), message: why.clone(), field };
    refusal::conflict(evacuation, &why, cause, None)
}
