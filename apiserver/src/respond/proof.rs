//! Proof that a caller may answer by a responder's name.

use evacuation_api::{Evacuation, EvacuationResponseSpec, ResponderStatus, SELF_RESPONDER};
use machinery_server::{ApiError, RequestContext};
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use crate::{caller::BoundPod, pods::Pods, refusal, rights::Rights};

/// Proof that a caller may answer by a responder's name.
pub(super) struct Proof<'a> {
    pub(super) pods: &'a dyn Pods,
    pub(super) rights: &'a Rights,
    pub(super) context: &'a RequestContext,
    /// Resource that the answer was posted to, for messages.
    pub(super) plural: &'a str,
    pub(super) evacuation: &'a Evacuation,
}

impl Proof<'_> {
    /// Requires that the caller is the responder that it names, or relays for its endpoint.
    pub(super) async fn of_anyone(&self, response: &EvacuationResponseSpec) -> Result<(), ApiError> {
        let responder = response.responder.as_deref().unwrap_or(SELF_RESPONDER);
        if responder == SELF_RESPONDER {
            // The controller has a pod too: a pod that is not the target may still relay.
            return match self.of_target() {
                Ok(pod) => self.of_live_target(pod).await,
                Err(refused) => self.relayed(responder, response, refused).await,
            };
        }
        if self.rights.may_respond(self.context, responder).await? {
            return Ok(());
        }
        let user = &self.context.user.name;
        let refused = self.refuse(&format!(
            "User {user:?} cannot respond as {responder:?} in the namespace {:?}: it takes the verb respond on \
             responders.evacuation.dev of that name or of its domain",
            self.context.namespace
        ));
        self.relayed(responder, response, refused).await
    }

    /// Requires that the caller is the target pod, by the pod that its token is bound to.
    pub(super) fn of_target(&self) -> Result<BoundPod<'_>, ApiError> {
        let target = &self.evacuation.spec.target.pod;
        let user = &self.context.user.name;
        let Some(pod) =
            BoundPod::of(&self.context.user).filter(|pod| pod.namespace == self.context.namespace)
        else {
            return Err(self.refuse(&format!(
                "User {user:?} is not a pod of the namespace {:?}: to respond as \"self\" use a token bound to the target",
                self.context.namespace
            )));
        };
        if pod.name != target.name || Some(pod.uid) != target.uid.as_deref() {
            let (own, target) = (pod.name, &target.name);
            return Err(self.refuse(&format!(
                "pod {own:?} cannot respond: only the target may, which is pod {target:?} as it was when the evacuation was created"
            )));
        }
        Ok(pod)
    }

    /// Requires that the target is still the same pod, and runs as the caller's service account.
    pub(super) async fn of_live_target(&self, caller: BoundPod<'_>) -> Result<(), ApiError> {
        let read = self.pods.get(caller.namespace, caller.name).await;
        let what = format!("the target pod {:?} cannot be read at the moment", caller.name);
        let live = read.map_err(|error| refusal::unavailable(&what, &error))?;
        let Some(live) = live.filter(|live| live.metadata.uid.as_deref() == Some(caller.uid)) else {
            return Err(self.refuse(&format!("pod {:?} is gone", caller.name)));
        };
        let account = live.spec.and_then(|spec| spec.service_account_name).unwrap_or_default();
        if account != caller.service_account {
            return Err(self.refuse(&format!(
                "pod {:?} runs as the service account {account:?}, not {:?}",
                caller.name, caller.service_account
            )));
        }
        Ok(())
    }

    /// Requires that the caller may relay for the responder's endpoint, and that the reply has both UIDs. A
    /// caller that may not relay gets `refused`, the rejection of its own answer.
    async fn relayed(
        &self,
        responder: &str,
        response: &EvacuationResponseSpec,
        refused: ApiError,
    ) -> Result<(), ApiError> {
        if !self.has_endpoint(responder) || !self.rights.may_relay(self.context, responder).await? {
            return Err(refused);
        }
        let spec = FieldPath::new("spec");
        let echoes = [("evacuationUid", &response.evacuation_uid), ("podUid", &response.pod_uid)];
        let missing: Vec<FieldError> = echoes
            .into_iter()
            .filter(|(_, uid)| uid.is_none())
            .map(|(field, _)| FieldError {
                kind: FieldErrorKind::Required,
                field: spec.child(field),
                message: "a relayed answer repeats it from the reply".to_owned(),
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(ApiError::Invalid(missing)) }
    }

    fn has_endpoint(&self, responder: &str) -> bool {
        let responders = self.evacuation.status.iter().flat_map(|status| status.responders.iter().flatten());
        responders.filter(|status| status.name == responder).any(ResponderStatus::is_pushed)
    }

    fn refuse(&self, why: &str) -> ApiError {
        let name = self.evacuation.metadata.name.as_deref().unwrap_or_default();
        refusal::forbidden_of(self.plural, name, why)
    }
}
