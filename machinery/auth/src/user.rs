//! Users.

use std::collections::BTreeMap;

/// User of a request without credentials.
pub const ANONYMOUS_USER: &str = "system:anonymous";
/// The group of [`ANONYMOUS_USER`].
pub const UNAUTHENTICATED_GROUP: &str = "system:unauthenticated";
/// Group of every user that was authenticated.
pub const AUTHENTICATED_GROUP: &str = "system:authenticated";
/// Group that may do everything. The authorizer is not asked about its members.
pub const PRIVILEGED_GROUP: &str = "system:masters";
/// The key of [`UserInfo::extra`] that identifies the credential.
pub(crate) const CREDENTIAL_ID_KEY: &str = "authentication.kubernetes.io/credential-id";

/// Prefix of the user names of service accounts, before `NAMESPACE:NAME`.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Returns the name of the flow that a user belongs to, for limits with a share for each flow. The service
/// accounts of a namespace are one flow. Other users are one each.
///
/// The flow of a namespace ends with a colon, so that no user has its name.
pub fn flow(user: &str) -> &str {
    let account = user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let end = account.map(|(namespace, _)| SERVICE_ACCOUNT.len() + namespace.len() + 1);
    end.and_then(|end| user.get(..end)).unwrap_or(user)
}

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserInfo {
    /// The user's name, such as `system:serviceaccount:shop:db`.
    pub name: String,
    /// The user's UID, where the authenticator knows one.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// Further facts from the authenticator. Keys are lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// User of a request without credentials: `system:anonymous` in the group `system:unauthenticated`.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS_USER.to_owned(),
            groups: vec![UNAUTHENTICATED_GROUP.to_owned()],
            ..Self::default()
        }
    }

    /// User of that name, with the groups that follow from the name: those of a service account, and none for
    /// another user.
    pub fn of_name(name: &str) -> Self {
        let account = name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
        let groups = account.map_or_else(Vec::new, |(namespace, _)| {
            let all = "system:serviceaccounts";
            vec![all.to_owned(), format!("{all}:{namespace}"), AUTHENTICATED_GROUP.to_owned()]
        });
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Returns true for `system:anonymous`.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS_USER
    }

    /// Returns true when the user is in that group.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }

    /// Returns the number of bytes of its strings.
    pub(crate) fn size(&self) -> usize {
        let extra =
            self.extra.iter().map(|(key, values)| key.len() + values.iter().map(String::len).sum::<usize>());
        let groups = self.groups.iter().map(String::len);
        self.name.len() + self.uid.as_ref().map_or(0, String::len) + groups.chain(extra).sum::<usize>()
    }

    /// Returns the only value of an extra key; `None` when the key is missing or has several values.
    pub fn extra_value(&self, key: &str) -> Option<&str> {
        match self.extra.get(key).map(Vec::as_slice) {
            Some([value]) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_service_account_follow_from_its_name() {
        let user = UserInfo::of_name("system:serviceaccount:shop:db");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
        );
        for name in ["jane", "system:serviceaccount:shop", ""] {
            assert!(UserInfo::of_name(name).groups.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_service_accounts_of_a_namespace_are_one_flow() {
        let cases = [
            ("system:serviceaccount:shop:a", "system:serviceaccount:shop:"),
            ("system:serviceaccount:shop:b", "system:serviceaccount:shop:"),
            ("system:serviceaccount:shop", "system:serviceaccount:shop"),
            ("jane", "jane"),
        ];
        for (user, expected) in cases {
            assert_eq!(flow(user), expected);
        }
    }

    #[test]
    fn an_extra_key_with_several_values_has_no_one_value() {
        let user = UserInfo {
            extra: BTreeMap::from([
                ("one".to_owned(), vec!["a".to_owned()]),
                ("two".to_owned(), vec!["a".to_owned(), "b".to_owned()]),
                ("none".to_owned(), vec![]),
            ]),
            ..UserInfo::default()
        };
        assert_eq!(user.extra_value("one"), Some("a"));
        assert_eq!(user.extra_value("two"), None);
        assert_eq!(user.extra_value("none"), None);
        assert_eq!(user.extra_value("missing"), None);
    }
}
