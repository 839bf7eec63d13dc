//! The caller of a request, as the limits count it.

use machinery_auth::UserInfo;

/// Extra key under which kube-apiserver names the pod that a service account's token is bound to.
const POD_UID_EXTRA: &str = "authentication.kubernetes.io/pod-uid";
/// Prefix of the user names of service accounts, before `NAMESPACE:NAME`.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// Group whose members are always served.
const ADMINISTRATORS: &str = "system:masters";

/// Caller of a request, as the limits count it.
///
/// The pods of an app share a service account. A caller whose token is bound to a pod is therefore that pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Name of the user, and UID of the pod that its token is bound to.
    pub(crate) name: String,
    /// Namespace of a service account. All service accounts of a namespace share one limit.
    pub(crate) namespace: Option<String>,
    pub(crate) rank: Rank,
}

/// Rank of a caller: which limits it is subject to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Subject to every limit.
    Ordinary,
    /// One of the priority users: no share, and the reserve is for it.
    Priority,
    /// Administrator: subject to no limit.
    Exempt,
}

impl Caller {
    /// The caller that authenticated as `user`.
    pub(crate) fn new(user: &UserInfo, priority_users: &[String]) -> Self {
        let pod = user.extra.get(POD_UID_EXTRA).and_then(|uids| uids.first());
        let namespace = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
        let rank = if user.is_in_group(ADMINISTRATORS) {
            Rank::Exempt
        } else if priority_users.contains(&user.name) {
            Rank::Priority
        } else {
            Rank::Ordinary
        };
        Self {
            name: pod.map_or_else(|| user.name.clone(), |pod| format!("{} (pod {pod})", user.name)),
            namespace: namespace.map(|(namespace, _)| namespace.to_owned()),
            rank,
        }
    }

    /// Returns the name of the flow that takes turns with others: the namespace of a service account,
    /// or else the user, as [`machinery_auth::flow`] has it.
    pub(crate) fn flow(&self) -> String {
        self.namespace
            .as_ref()
            .map_or_else(|| self.name.clone(), |namespace| format!("{SERVICE_ACCOUNT}{namespace}:"))
    }

    /// A caller that is not authenticated yet, at that network address.
    pub(crate) fn at_address(address: &str) -> Self {
        Self { name: address.to_owned(), namespace: None, rank: Rank::Ordinary }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_a_caller_of_its_own_and_its_namespace_is_that_of_its_service_account() {
        let mut user = UserInfo { name: format!("{SERVICE_ACCOUNT}shop:db"), ..UserInfo::default() };
        let account = Caller::new(&user, &[]);
        assert_eq!((account.namespace.as_deref(), account.rank), (Some("shop"), Rank::Ordinary));
        user.extra.insert(POD_UID_EXTRA.to_owned(), vec!["u-0".to_owned()]);
        let pod = Caller::new(&user, &[]);
        assert_eq!(pod.namespace.as_deref(), Some("shop"));
        assert_ne!(pod.name, account.name);
        let jane = UserInfo { name: "jane".to_owned(), ..UserInfo::default() };
        assert_eq!(Caller::new(&jane, &[]).namespace, None);
    }

    #[test]
    fn priority_users_and_administrators_have_their_own_ranks() {
        let mut user = UserInfo { name: "controller".to_owned(), ..UserInfo::default() };
        assert_eq!(Caller::new(&user, &["other".to_owned()]).rank, Rank::Ordinary);
        assert_eq!(Caller::new(&user, &["controller".to_owned()]).rank, Rank::Priority);
        user.groups.push(ADMINISTRATORS.to_owned());
        assert_eq!(Caller::new(&user, &[]).rank, Rank::Exempt);
    }
}
