//! Who makes a request.

use std::collections::BTreeMap;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserInfo {
    /// The user's name, such as `system:serviceaccount:shop:db`.
    pub name: String,
    /// The user's UID, where the authenticator knows one.
    pub uid: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
    /// What else the authenticator said; keys are lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}
