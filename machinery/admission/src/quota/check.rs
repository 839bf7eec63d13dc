//! Check of one quota.

use k8s_openapi::{api::core::v1::ResourceQuota, apimachinery::pkg::api::resource::Quantity};
use machinery_server::AdmissionAttributes;

use super::quantity::whole;

/// Prefix of the names of object counts.
const COUNT: &str = "count/";

/// Change of a quota's status.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Charge {
    /// New number of used objects.
    pub(super) used: String,
}

/// Returns the name under which a quota counts the objects of a resource.
pub(super) fn count_of(attributes: &AdmissionAttributes<'_>) -> String {
    if attributes.group.is_empty() {
        format!("{COUNT}{}", attributes.resource)
    } else {
        format!("{COUNT}{}.{}", attributes.resource, attributes.group)
    }
}

/// Returns true when a quota counts objects of any resource.
pub(super) fn counts_objects(quota: &ResourceQuota) -> bool {
    let hard = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    let scoped = quota.spec.as_ref().is_some_and(|spec| {
        spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty()) || spec.scope_selector.is_some()
    });
    // Scopes are for pods and claims of volumes.
    !scoped && hard.is_some_and(|hard| hard.keys().any(|name| name.starts_with(COUNT)))
}

/// Returns true when a quota limits that count. As upstream, the limit is the one that
/// kube-controller-manager has taken over into the status.
pub(super) fn limits(quota: &ResourceQuota, resource: &str) -> bool {
    let hard = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    hard.is_some_and(|hard| hard.contains_key(resource))
}

/// Checks that one more object fits. Returns `None` when the quota does not limit the resource, or no longer.
///
/// # Errors
///
/// Reason that it does not, in upstream's words.
pub(super) fn check(quota: &ResourceQuota, resource: &str) -> Result<Option<Charge>, String> {
    if !counts_objects(quota) {
        return Ok(None);
    }
    let name = quota.metadata.name.as_deref().unwrap_or_default();
    let status = quota.status.clone().unwrap_or_default();
    let Some(Quantity(limited)) = status.hard.unwrap_or_default().remove(resource) else {
        return Ok(None);
    };
    let unknown = || format!("status unknown for quota: {name}, resources: {resource}");
    let Quantity(used) = status.used.unwrap_or_default().remove(resource).ok_or_else(unknown)?;
    let (number, limit) = (whole(&used).ok_or_else(unknown)?, whole(&limited).ok_or_else(unknown)?);
    if number >= limit {
        return Err(format!(
            "exceeded quota: {name}, requested: {resource}=1, used: {resource}={used}, limited: {resource}={limited}"
        ));
    }
    Ok(Some(Charge { used: (number + 1).to_string() }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POTS: &str = "count/pots.kitchen.dev";

    fn quota(hard: &str, used: Option<&str>) -> ResourceQuota {
        let mut quota = json!({"metadata": {"name": "q"}, "status": {"hard": {POTS: hard}}});
        if let Some(used) = used {
            quota["status"]["used"] = json!({POTS: used});
        }
        serde_json::from_value(quota).unwrap()
    }

    #[test]
    fn a_full_quota_is_refused_in_the_words_of_kube_apiserver() {
        assert_eq!(check(&quota("2", Some("1")), POTS), Ok(Some(Charge { used: "2".to_owned() })));
        let text = "exceeded quota: q, requested: count/pots.kitchen.dev=1, used: count/pots.kitchen.dev=2, \
                    limited: count/pots.kitchen.dev=2";
        assert_eq!(check(&quota("2", Some("2")), POTS).unwrap_err(), text);
    }

    #[test]
    fn a_quota_that_no_longer_limits_the_resource_is_not_charged() {
        assert_eq!(check(&quota("2", Some("1")), "count/pans.kitchen.dev"), Ok(None));
        let mut scoped = quota("2", Some("2"));
        scoped.spec = serde_json::from_value(json!({"scopes": ["BestEffort"]})).unwrap();
        assert_eq!(check(&scoped, POTS), Ok(None));
    }

    #[test]
    fn a_quota_that_was_never_counted_refuses_every_creation() {
        let text = "status unknown for quota: q, resources: count/pots.kitchen.dev";
        assert_eq!(check(&quota("2", None), POTS).unwrap_err(), text);
    }

    #[test]
    fn quotas_without_object_counts_or_with_scopes_are_not_watched() {
        assert!(counts_objects(&quota("2", None)));
        let pods = json!({"status": {"hard": {"pods": "2"}}});
        assert!(!counts_objects(&serde_json::from_value(pods).unwrap()));
        let scoped = json!({"spec": {"scopes": ["BestEffort"]}, "status": {"hard": {POTS: "2"}}});
        assert!(!counts_objects(&serde_json::from_value(scoped).unwrap()));
    }
}
