//! Creation: rules 2, 3 and 5.

use evacuation_api::{DeadlineAction, Evacuation, Requester};
use evacuation_protocol::{RequesterEdit, begin, target_problem, target_warning};
use machinery_server::{ApiError, Cause, RequestContext};
use machinery_validation::FieldErrorKind;

use super::{EvacuationStrategy, warning::warn_of_windows};
use crate::refusal;

impl EvacuationStrategy {
    /// Authorises the caller, then looks at the pod and pins its UID, then records who asked.
    ///
    /// In that order, so that nobody learns by trying which pods exist and what their UIDs are.
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
        object.status = Some(begin(&object.spec, &context.user.name, &context.user.groups, context.now));
        warn_of_windows(context, object, &RequesterEdit::creation(&object.spec.requesters));
        Ok(())
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

/// As a precondition of a deletion: the pod that was meant has been replaced by another of its name.
fn other_pod(evacuation: &str, pod: &str, given: &str, live: &str) -> ApiError {
    let why = format!("pod {pod:?} has the UID {live:?}, not {given:?}");
    let field = "spec.target.pod.uid".to_owned();
    let cause = Cause { reason: "WrongPod".to_owned(), message: why.clone(), field };
    refusal::conflict(evacuation, &why, cause, None)
}
