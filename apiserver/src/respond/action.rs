//! The subresource `respond` of Evacuations and SelfEvacuations.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use evacuation_api::{
    CANCELLATION_FINALIZER, Evacuation, EvacuationResponse, EvacuationResponseStatus, SELF_RESPONDER,
    SelfEvacuation, validate_response,
};
use evacuation_protocol::{Actor, AnswerError, answer, awaits_acknowledgement};
use machinery_auth::Authorizer;
use machinery_server::{Action, ApiError, Reason, Registry, RequestContext};

use super::proof::Proof;
use crate::{
    evacuation::{EvacuationStrategy, commit::commit},
    pods::Pods,
    refusal,
    rights::Rights,
    self_evacuation::own_pod,
};

/// Receiver of answers to Evacuations.
pub struct Respond {
    registry: Arc<Registry<EvacuationStrategy>>,
    pods: Arc<dyn Pods>,
    rights: Rights,
    plural: &'static str,
}

impl Respond {
    /// Returns the action `evacuations/NAME/respond`. It accepts answers of the target pod, of users with the
    /// verb `respond` for the responder's name, and of the controller that relays.
    pub fn for_anyone(
        registry: Arc<Registry<EvacuationStrategy>>,
        pods: Arc<dyn Pods>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        Self { registry, pods, rights: Rights::new(authorizer), plural: Evacuation::PLURAL }
    }

    /// Returns the action `selfevacuations/NAME/respond`. It accepts answers of the target pod only, as
    /// `self`.
    pub fn for_target(
        registry: Arc<Registry<EvacuationStrategy>>,
        pods: Arc<dyn Pods>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        Self { registry, pods, rights: Rights::new(authorizer), plural: SelfEvacuation::PLURAL }
    }

    fn is_for_target(&self) -> bool {
        self.plural == SelfEvacuation::PLURAL
    }

    async fn prove(
        &self,
        context: &RequestContext,
        evacuation: &Evacuation,
        response: &EvacuationResponse,
    ) -> Result<(), ApiError> {
        let proof =
            Proof { pods: &*self.pods, rights: &self.rights, context, plural: self.plural, evacuation };
        if self.is_for_target() {
            return proof.of_live_target(proof.of_target()?).await;
        }
        proof.of_anyone(&response.spec).await
    }
}

#[async_trait]
impl Action for Respond {
    type Body = EvacuationResponse;

    fn name(&self) -> &'static str {
        "respond"
    }

    async fn post(
        &self,
        context: &RequestContext,
        name: &str,
        mut body: EvacuationResponse,
    ) -> Result<EvacuationResponse, ApiError> {
        let began = Instant::now();
        let errors = validate_response(&body);
        if !errors.is_empty() {
            return Err(ApiError::Invalid(errors));
        }
        if let Some(given) = body.metadata.name.as_ref().filter(|given| *given != name) {
            let why = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(ApiError::status(Reason::BadRequest, why));
        }
        if self.is_for_target() {
            // Before anything is read: other namespaces' Evacuations are none of the caller's business.
            own_pod(&context.user, &context.namespace, name)?;
            let responder = body.spec.responder.as_deref().unwrap_or(SELF_RESPONDER);
            if responder != SELF_RESPONDER {
                let why = format!("a pod responds as \"self\" here, not as {responder:?}");
                return Err(refusal::forbidden_of(self.plural, name, &why));
            }
        }
        let evacuation = self.registry.get(&context.namespace, name).await?;
        self.prove(context, &evacuation, &body).await?;
        // A slow proof must not shorten the delay that is granted.
        let now = context.now + began.elapsed();

        // The proof is for the Evacuation of this UID, not for a later one of the same name.
        let proved = evacuation.metadata.uid.unwrap_or_default();
        let mut reply = EvacuationResponseStatus::default();
        let record = |evacuation: &mut Evacuation| {
            let refuse = |error: &AnswerError| refusal::answer(name, error);
            let actual = evacuation.metadata.uid.clone().unwrap_or_default();
            if actual != proved {
                return Err(refuse(&AnswerError::WrongEvacuation { given: proved.clone(), actual }));
            }
            let (status, granted) = answer(evacuation, &body.spec, now).map_err(|error| refuse(&error))?;
            if evacuation.metadata.deletion_timestamp.is_some() && !awaits_acknowledgement(&status, now) {
                release(evacuation);
            }
            reply = granted;
            let before = evacuation.status.take();
            commit(evacuation, before.as_ref(), status, Actor::Responder, now)
        };
        self.registry.mutate(context, &context.namespace, name, record).await?;
        body.metadata.name = Some(name.to_owned());
        body.metadata.namespace = Some(context.namespace.clone());
        body.status = Some(reply);
        Ok(body)
    }
}

/// Removes the finalizer: every responder that was asked knows of the cancellation.
fn release(evacuation: &mut Evacuation) {
    if let Some(finalizers) = &mut evacuation.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != CANCELLATION_FINALIZER);
    }
}
