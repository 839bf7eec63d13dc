//! Creation: rules 2, 3 and 5, and the responders.

use std::time::Instant;

use evacuation_api::{DeadlineAction, Evacuation, MAX_RESPONDERS, Requester};
use evacuation_protocol::{
    Actor, LivePod, RequesterEdit, begin, check_creation, fix_responders, registered_responders,
    target_problem, target_warning,
};
use machinery_server::{ApiError, Cause, RequestContext};
use machinery_validation::FieldErrorKind;

use super::{EvacuationStrategy, commit::commit, warning::warn_of_entries};
use crate::refusal;

/// Maximum number of names in the warning of responders that are not asked.
const NAMED: usize = 16;

impl EvacuationStrategy {
    /// Authorises the caller, reads the pod, pins its UID, records the requesters, fixes the responders and
    /// activates the first one, unless a budget can make its question wait.
    ///
    /// The order matters: a caller without rights learns neither which pods exist nor their UIDs. The
    /// registrations are as new as the store: a responder that was registered before the creation is asked.
    pub(super) async fn admit_new(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
    ) -> Result<(), ApiError> {
        let began = Instant::now();
        let name = object.metadata.name.clone().unwrap_or_default();
        let target = &object.spec.target.pod.name;
        self.rights.require_evict(context, &name, target).await?;
        if object.spec.requesters.iter().any(deletes) {
            self.rights.require_delete(context, &name, target).await?;
        }
        self.require_rights_of_owners(context, object, &RequesterEdit::creation(&object.spec.requesters))
            .await?;
        if let Err(error) = check_creation(&object.spec.requesters, &context.user.name)
            && !self.rights.may_override(context, &name).await?
        {
            return Err(refusal::edit(&name, &error));
        }

        let read = async {
            let pod = self.pods.get(&context.namespace, target).await;
            let what = format!("the target pod {target:?} cannot be read at the moment");
            pod.map_err(|error| refusal::unavailable(&what, &error))
        };
        let registrations = self.registrations.list_newest(&context.namespace);
        let budgets = async { Ok(self.pods.budgets(&context.namespace, &context.user.name).await) };
        let (pod, registrations, budgets) = tokio::try_join!(read, registrations, budgets)?;
        let pod = pod.ok_or_else(|| no_such_pod(target))?;
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
        // A slow read must not shorten the time that the first responder has to answer.
        let now = context.now + began.elapsed();
        let mut registered = registered_responders(&pod, registrations.iter().map(|stored| &***stored));
        if !registered.left_out.is_empty() {
            context.warnings.add(left_out(&registered.left_out));
        }
        if let Some(warning) = self.settings.get().limit_registered(&mut registered) {
            context.warnings.add(warning);
        }
        let mut status = begin(&object.spec, &context.user.name, &context.user.groups, now);
        status.node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let in_budget = budgets.may_select(&pod);
        fix_responders(&mut status, &object.spec.requesters, &LivePod::of(&pod), &registered, in_budget, now);
        let edit = RequesterEdit::creation(&object.spec.requesters);
        self.record_owner_groups(context, object, &edit, &mut status).await?;
        warn_of_entries(context, &object.spec, &status, &edit);
        commit(object, None, status, Actor::Server, now)
    }
}

/// A warning that names the responders that are not asked. Warnings are short.
fn left_out(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(first.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "more than {MAX_RESPONDERS} responders are registered for the pod; these of the lowest priority are not asked: {}{more}",
        first.join(", ")
    )
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
