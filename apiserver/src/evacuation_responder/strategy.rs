//! The hooks of the kind EvacuationResponder.

use std::sync::Arc;

use async_trait::async_trait;
use evacuation_api::{
    EvacuationResponder, EvacuationResponderSpec, SELF_RESPONDER, default_evacuation_responder,
    validate_evacuation_responder,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use machinery_auth::Authorizer;
use machinery_server::{ApiError, Column, KindInfo, RequestContext, Strategy};
use machinery_validation::FieldError;

use super::table;
use crate::{CurrentSettings, refusal, rights::Rights};

/// Name of the responder of a registration that cannot be read.
const UNREADABLE: &str = "unreadable.evacuation.dev/unknown";

/// The rules of the kind EvacuationResponder.
///
/// # Guarantees
///
/// The reply of an endpoint counts as the answer of its responder. So a user who registers an endpoint, or
/// changes such a registration, needs the right to answer by that name: the verb `respond`. A responder that
/// watches answers with its own credentials, and `self` at the target pod is the pod itself. To register
/// these, the right to create the object is enough.
pub struct EvacuationResponderStrategy {
    rights: Rights,
    settings: Arc<CurrentSettings>,
}

impl EvacuationResponderStrategy {
    /// Returns the strategy. `authorizer` checks rights beyond a request's verb. `settings` has the limits of
    /// responders.
    pub fn new(authorizer: Arc<dyn Authorizer>, settings: Arc<CurrentSettings>) -> Self {
        Self { rights: Rights::new(authorizer), settings }
    }

    async fn admit(&self, context: &RequestContext, object: &EvacuationResponder) -> Result<(), ApiError> {
        let spec = &object.spec;
        if let Some(warning) = self.settings.get().responder_warning(spec) {
            context.warnings.add(warning);
        }
        if !speaks_for_another(spec) || self.rights.may_respond(context, &spec.name).await? {
            return Ok(());
        }
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let (user, responder) = (&context.user.name, &spec.name);
        let why = format!(
            "User {user:?} cannot register an endpoint that answers as {responder:?} in the namespace {:?}: it takes the verb \
             respond on responders.evacuation.dev of that name or of its domain",
            context.namespace
        );
        Err(refusal::forbidden_of(EvacuationResponder::PLURAL, name, &why))
    }
}

/// Returns true for an endpoint that is not the target pod answering for itself.
fn speaks_for_another(spec: &EvacuationResponderSpec) -> bool {
    spec.service.is_some() || (spec.http.is_some() && spec.name != SELF_RESPONDER)
}

#[async_trait]
impl Strategy for EvacuationResponderStrategy {
    type Object = EvacuationResponder;

    fn info(&self) -> KindInfo {
        KindInfo {
            namespaced: true,
            singular: "evacuationresponder",
            short_names: &["evacresp"],
            categories: &[],
        }
    }

    fn has_status(&self) -> bool {
        false
    }

    fn default(&self, _: &RequestContext, object: &mut EvacuationResponder) {
        self.settings.get().default_responder(&mut object.spec);
        default_evacuation_responder(object);
    }

    fn prepare_for_create(&self, _: &RequestContext, _: &mut EvacuationResponder) {}

    fn validate(&self, _: &RequestContext, object: &EvacuationResponder) -> Vec<FieldError> {
        validate_evacuation_responder(object)
    }

    async fn admit_create(
        &self,
        context: &RequestContext,
        object: &mut EvacuationResponder,
    ) -> Result<(), ApiError> {
        self.admit(context, object).await
    }

    fn prepare_for_update(
        &self,
        _: &RequestContext,
        _: &mut EvacuationResponder,
        _: &EvacuationResponder,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate_update(
        &self,
        _: &RequestContext,
        object: &EvacuationResponder,
        _: &EvacuationResponder,
    ) -> Vec<FieldError> {
        validate_evacuation_responder(object)
    }

    async fn admit_update(
        &self,
        context: &RequestContext,
        object: &mut EvacuationResponder,
        old: &EvacuationResponder,
    ) -> Result<(), ApiError> {
        if object.spec == old.spec {
            return Ok(());
        }
        self.admit(context, object).await
    }

    async fn may_use_reserve(
        &self,
        context: &RequestContext,
        _: &EvacuationResponder,
        _: Option<&EvacuationResponder>,
    ) -> Result<bool, ApiError> {
        self.rights.may_create_everywhere(context, EvacuationResponder::PLURAL).await
    }

    /// A registration that cannot be read counts for every pod of its namespace: nobody knows whom it asks,
    /// and a pod that a caller takes for unregistered is evicted unasked.
    fn stand_in(&self, _: &str, name: &str) -> Option<EvacuationResponder> {
        let spec = EvacuationResponderSpec {
            selector: LabelSelector::default(),
            name: UNREADABLE.to_owned(),
            priority: None,
            timeout_seconds: None,
            max_delay_seconds: None,
            serves_until_termination: false,
            http: None,
            service: None,
        };
        Some(EvacuationResponder::new(name, spec))
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, object: &EvacuationResponder) -> Vec<serde_json::Value> {
        table::cells(object)
    }
}
