//! Proof of a caller's own pod, from its credentials.

use machinery_auth::UserInfo;

/// Keys of the user's extra for the pod that a service-account token is bound to. The kube-apiserver writes
/// them.
const POD_NAME_EXTRA: &str = "authentication.kubernetes.io/pod-name";
const POD_UID_EXTRA: &str = "authentication.kubernetes.io/pod-uid";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Pod that a caller's token is bound to.
///
/// The kube-apiserver writes it to the user's extra after it checked that this pod exists. Another user can
/// claim it only with the right to impersonate `userextras`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundPod<'a> {
    /// Namespace of the service account, and so of the pod.
    pub(crate) namespace: &'a str,
    /// The service account's name.
    pub(crate) service_account: &'a str,
    /// The pod's name.
    pub(crate) name: &'a str,
    /// The pod's UID.
    pub(crate) uid: &'a str,
}

impl<'a> BoundPod<'a> {
    /// Returns the pod of a service account whose token is bound to one.
    pub(crate) fn of(user: &'a UserInfo) -> Option<Self> {
        let (namespace, service_account) = user.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
        let name = only_value(user, POD_NAME_EXTRA)?;
        let uid = only_value(user, POD_UID_EXTRA)?;
        let parts = [namespace, service_account, name, uid];
        parts.iter().all(|part| !part.is_empty()).then_some(Self { namespace, service_account, name, uid })
    }
}

/// Returns the value of an extra that has exactly one. Several values prove nothing.
fn only_value<'a>(user: &'a UserInfo, key: &str) -> Option<&'a str> {
    match user.extra.get(key)?.as_slice() {
        [value] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, extra: &[(&str, &[&str])]) -> UserInfo {
        let extra = extra
            .iter()
            .map(|(key, values)| {
                ((*key).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
            })
            .collect();
        UserInfo { name: name.to_owned(), extra, ..UserInfo::default() }
    }

    #[test]
    fn only_a_service_account_with_a_token_bound_to_one_pod_has_a_pod() {
        let (name, uid) = ((POD_NAME_EXTRA, &["db-0"][..]), (POD_UID_EXTRA, &["u-1"][..]));
        let account = "system:serviceaccount:shop:db";
        let bound = BoundPod { namespace: "shop", service_account: "db", name: "db-0", uid: "u-1" };
        for (user, expected) in [
            (user(account, &[name, uid]), Some(bound)),
            (user(account, &[name]), None),
            (user(account, &[uid]), None),
            (user(account, &[]), None),
            (user(account, &[name, (POD_UID_EXTRA, &["u-1", "u-2"])]), None),
            (user(account, &[name, (POD_UID_EXTRA, &[""])]), None),
            (user("jane", &[name, uid]), None),
            (user("system:serviceaccount:shop", &[name, uid]), None),
            (user("system:serviceaccount::db", &[name, uid]), None),
        ] {
            assert_eq!(BoundPod::of(&user), expected, "{user:?}");
        }
    }
}
