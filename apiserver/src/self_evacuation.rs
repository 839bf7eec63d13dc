//! The kind SelfEvacuation: the view that a pod has of the Evacuations that target it.

use evacuation_api::{Evacuation, SelfEvacuation};
use machinery_auth::UserInfo;
use machinery_server::{ApiError, Column, KindInfo, RequestContext, View};

use crate::{
    caller::BoundPod,
    evacuation::{EvacuationStrategy, table},
    refusal,
};

/// View that shows to a pod the Evacuations that target it, and nothing to callers without a pod.
///
/// The caller's token names the pod. The view is safe to grant to every service account.
pub struct SelfEvacuationView;

impl View for SelfEvacuationView {
    type Source = EvacuationStrategy;
    type Object = SelfEvacuation;

    fn info(&self) -> KindInfo {
        KindInfo { namespaced: true, singular: "selfevacuation", short_names: &["selfevac"], categories: &[] }
    }

    fn admit(&self, context: &RequestContext) -> Result<(), ApiError> {
        own_pod(&context.user, &context.namespace, "").map(|_| ())
    }

    fn namespace(&self, context: &RequestContext) -> Option<String> {
        BoundPod::of(&context.user).map(|pod| pod.namespace.to_owned())
    }

    fn field(&self, context: &RequestContext) -> Option<(&'static str, String)> {
        BoundPod::of(&context.user).map(|pod| (table::POD_UID, pod.uid.to_owned()))
    }

    fn every_caller_may_list(&self) -> bool {
        false
    }

    fn project(&self, context: &RequestContext, source: &Evacuation) -> Option<SelfEvacuation> {
        let pod = BoundPod::of(&context.user)?;
        let targeted = source.metadata.namespace.as_deref() == Some(pod.namespace)
            && source.spec.target.pod.uid.as_deref() == Some(pod.uid);
        targeted.then(|| source.clone().into())
    }

    fn columns(&self) -> &'static [Column] {
        table::COLUMNS
    }

    fn cells(&self, object: &SelfEvacuation) -> Vec<serde_json::Value> {
        let shown = Evacuation { status: object.status.clone(), ..Evacuation::new("", object.spec.clone()) };
        table::cells(&shown)
    }
}

/// Returns the pod that the caller's token is bound to. It must be of the request's namespace, where there is
/// one.
pub(crate) fn own_pod<'a>(user: &'a UserInfo, namespace: &str, name: &str) -> Result<BoundPod<'a>, ApiError> {
    let refuse = |why: &str| refusal::forbidden_of(SelfEvacuation::PLURAL, name, why);
    let pod = BoundPod::of(user)
        .ok_or_else(|| refuse(&format!("User {:?} is not a pod: use a token bound to a pod", user.name)))?;
    if !namespace.is_empty() && namespace != pod.namespace {
        let own = pod.namespace;
        return Err(refuse(&format!("the caller's pod {:?} is in the namespace {own:?}", pod.name)));
    }
    Ok(pod)
}
