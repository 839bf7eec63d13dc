//! Rights of callers beyond the verb of their request.

use std::sync::Arc;

use evacuation_api::{DrainUser, Evacuation, GROUP, VERSION};
use machinery_auth::{Attributes, Authorizer, ResourceAttributes, UserInfo};
use machinery_server::{ApiError, RequestContext};

use crate::refusal;

/// Virtual resource that grants answering, as `signers` grants signing.
const RESPONDERS: &str = "responders";

/// Checks of rights beyond the verb of a request, by the authoriser.
#[derive(Clone)]
pub(crate) struct Rights(Arc<dyn Authorizer>);

impl Rights {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self(authorizer)
    }

    /// Requires the right to evict the pod, which every requester needs.
    pub(crate) async fn require_evict(
        &self,
        context: &RequestContext,
        evacuation: &str,
        pod: &str,
    ) -> Result<(), ApiError> {
        let eviction = pods(context).subresource("eviction").named(pod);
        self.require(&context.user, (Evacuation::PLURAL, evacuation), "create", eviction).await
    }

    /// Requires the right to delete the pod, which a requester with `atDeadline: Delete` needs.
    pub(crate) async fn require_delete(
        &self,
        context: &RequestContext,
        evacuation: &str,
        pod: &str,
    ) -> Result<(), ApiError> {
        self.require(&context.user, (Evacuation::PLURAL, evacuation), "delete", pods(context).named(pod))
            .await
    }

    /// Requires that a user may evict the pod or delete it, and delete it with `deletes`.
    pub(crate) async fn require_disruption(
        &self,
        context: &RequestContext,
        user: &UserInfo,
        (evacuation, pod): (&str, &str),
        deletes: bool,
    ) -> Result<(), ApiError> {
        let named = (Evacuation::PLURAL, evacuation);
        let deletion = pods(context).named(pod);
        if deletes {
            return self.require(user, named, "delete", deletion).await;
        }
        let eviction = pods(context).subresource("eviction").named(pod);
        let evicts = self.require(user, named, "create", eviction).await;
        if evicts.is_err() && self.may(user, "delete", deletion).await? {
            return Ok(());
        }
        evicts
    }

    /// Requires the rights of a user that a drain needs in the whole cluster: to evict pods, to patch nodes,
    /// and with `deletes` to delete pods.
    pub(crate) async fn require_drain(
        &self,
        user: &UserInfo,
        (plural, name): (&str, &str),
        deletes: bool,
    ) -> Result<(), ApiError> {
        let core = |resource| ResourceAttributes::new("", "v1", resource);
        let mut needed = vec![("create", core("pods").subresource("eviction")), ("patch", core("nodes"))];
        if deletes {
            needed.push(("delete", core("pods")));
        }
        for (verb, resource) in needed {
            self.require(user, (plural, name), verb, resource).await?;
        }
        Ok(())
    }

    /// Returns true when the caller holds the verb `override`, for the entries of others.
    pub(crate) async fn may_override(
        &self,
        context: &RequestContext,
        evacuation: &str,
    ) -> Result<bool, ApiError> {
        let resource = ResourceAttributes::new(GROUP, VERSION, Evacuation::PLURAL);
        self.may(&context.user, "override", resource.in_namespace(&context.namespace).named(evacuation)).await
    }

    /// Returns true when the caller holds the verb `override` for that cluster-scoped object. An empty name
    /// stands for all objects of the kind.
    pub(crate) async fn may_override_in_cluster(
        &self,
        context: &RequestContext,
        plural: &str,
        name: &str,
    ) -> Result<bool, ApiError> {
        let resource = ResourceAttributes::new(GROUP, VERSION, plural);
        self.may(&context.user, "override", resource.named(name)).await
    }

    /// Requires that a cluster-scoped object belongs to the caller, or the verb `override`. `act` completes
    /// the message "User U cannot". `cause` is the error's cause.
    pub(crate) async fn require_ownership(
        &self,
        context: &RequestContext,
        (plural, name): (&str, &str),
        owner: Option<&DrainUser>,
        act: &str,
        cause: &str,
    ) -> Result<(), ApiError> {
        let (user, owner) = (&context.user.name, owner.map_or("", |owner| &owner.user));
        if owner == user || self.may_override_in_cluster(context, plural, name).await? {
            return Ok(());
        }
        let why = format!(
            "User {user:?} cannot {act}: it belongs to user {owner:?}, and others need the verb override on \
             {plural}.{GROUP}"
        );
        Err(refusal::forbidden_of(plural, name, &why).with_cause(cause, why))
    }

    /// Returns true when the caller may answer by that responder's name, or by any name of its domain.
    pub(crate) async fn may_respond(
        &self,
        context: &RequestContext,
        responder: &str,
    ) -> Result<bool, ApiError> {
        let any_of_domain = responder.split_once('/').map(|(domain, _)| format!("{domain}/*"));
        for name in std::iter::once(responder.to_owned()).chain(any_of_domain) {
            if self.may(&context.user, "respond", responders(context).named(name)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true when the caller may record the reply of that responder's endpoint.
    pub(crate) async fn may_relay(
        &self,
        context: &RequestContext,
        responder: &str,
    ) -> Result<bool, ApiError> {
        self.may(&context.user, "relay", responders(context).named(responder)).await
    }

    /// Returns true when the caller may create objects of that kind in all namespaces.
    pub(crate) async fn may_create_everywhere(
        &self,
        context: &RequestContext,
        plural: &str,
    ) -> Result<bool, ApiError> {
        self.may(&context.user, "create", ResourceAttributes::new(GROUP, VERSION, plural)).await
    }

    /// Returns true when the user acts for all namespaces: it may create Evacuations in all of them, or drain
    /// nodes.
    pub(crate) async fn may_ask_everywhere(&self, user: &UserInfo) -> Result<bool, ApiError> {
        let core = |resource| ResourceAttributes::new("", "v1", resource);
        if self.may(user, "create", ResourceAttributes::new(GROUP, VERSION, Evacuation::PLURAL)).await? {
            return Ok(true);
        }
        Ok(self.may(user, "create", core("pods").subresource("eviction")).await?
            && self.may(user, "patch", core("nodes")).await?)
    }

    /// Requires a right for the object of that plural and name.
    async fn require(
        &self,
        user: &UserInfo,
        (plural, name): (&str, &str),
        verb: &str,
        resource: ResourceAttributes,
    ) -> Result<(), ApiError> {
        let attributes = Attributes::of_resource(user.clone(), verb, resource);
        if self.decide(&attributes).await? {
            return Ok(());
        }
        Err(refusal::forbidden_of(plural, name, &attributes.forbidden_message()))
    }

    async fn may(&self, user: &UserInfo, verb: &str, resource: ResourceAttributes) -> Result<bool, ApiError> {
        self.decide(&Attributes::of_resource(user.clone(), verb, resource)).await
    }

    async fn decide(&self, attributes: &Attributes) -> Result<bool, ApiError> {
        match self.0.authorize(attributes).await {
            Ok(verdict) => Ok(verdict.is_allowed()),
            Err(error) => {
                let what =
                    format!("cannot find out at the moment what user {:?} may do", attributes.user.name);
                Err(refusal::unavailable(&what, &error))
            }
        }
    }
}

fn pods(context: &RequestContext) -> ResourceAttributes {
    ResourceAttributes::new("", "v1", "pods").in_namespace(&context.namespace)
}

fn responders(context: &RequestContext) -> ResourceAttributes {
    ResourceAttributes::new(GROUP, VERSION, RESPONDERS).in_namespace(&context.namespace)
}
