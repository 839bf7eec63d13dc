//! The ClusterRole that grants a right whose lack an error reports.
//!
//! The roles are those of the manifests. A message of a missing right has Kubernetes' form, whether
//! kube-apiserver or the evacuation API wrote it.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::ResourceExt;
use machinery_merge::{Strictness, decode_parsed};

use crate::documents::documents;

/// The manifest with the roles for users.
const MANIFEST: &str = include_str!("../../deploy/base/access/users.yaml");
/// Beginning of the label of a role that is a part of a role of Kubernetes, so that users have it by that.
const AGGREGATED: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// A right that a message says is missing.
struct Missing<'m> {
    verb: &'m str,
    group: &'m str,
    resource: &'m str,
    /// The namespace; `None` for the whole cluster.
    namespace: Option<&'m str>,
}

/// Returns the statement that names the ClusterRole for the right that the message says is missing. `None`
/// for another message, and for a right that none of the roles grants.
pub(crate) fn grant(message: &str) -> Option<String> {
    if message.contains("the verb override") {
        return Some("the ClusterRole evacuation:override grants it".to_owned());
    }
    let missing = Missing::read(message)?;
    let roles = roles();
    let grants = |role: &&ClusterRole| role.rules.iter().flatten().any(|rule| missing.is_in(rule));
    let mut found = roles.iter().filter(grants);
    let role = if matches!(missing.verb, "get" | "list" | "watch") {
        found.next()
    } else {
        // The role that is bound in the cluster comes after that for a namespace.
        let mut bound = found.filter(|role| !role.labels().keys().any(|key| key.starts_with(AGGREGATED)));
        if missing.namespace.is_some() { bound.next() } else { bound.next_back() }
    };
    let place = match missing.namespace {
        Some(namespace) => format!("bound in namespace {namespace}"),
        None => "bound in the cluster".to_owned(),
    };
    role.map(|role| format!("the ClusterRole {} grants it, {place}", role.name_any()))
}

impl<'m> Missing<'m> {
    /// Reads `User "U" cannot VERB resource "R" in API group "G" in the namespace "N"`.
    fn read(message: &'m str) -> Option<Self> {
        let (before, rest) = message.split_once(" resource \"")?;
        // The command itself can have said that it cannot do something.
        let (_, verb) = before.rsplit_once(" cannot ")?;
        let (resource, rest) = rest.split_once("\" in API group \"")?;
        let (group, rest) = rest.split_once('"')?;
        let namespace = rest.strip_prefix(" in the namespace \"").and_then(|rest| rest.split_once('"'));
        Some(Self { verb, group, resource, namespace: namespace.map(|(name, _)| name) })
    }

    fn is_in(&self, rule: &PolicyRule) -> bool {
        let has =
            |list: Option<&Vec<String>>, word: &str| list.into_iter().flatten().any(|item| item == word);
        has(Some(&rule.verbs), self.verb)
            && has(rule.api_groups.as_ref(), self.group)
            && has(rule.resources.as_ref(), self.resource)
    }
}

/// Returns the roles of the manifest. A test reads all of them.
fn roles() -> Vec<ClusterRole> {
    let parsed = documents(MANIFEST).filter_map(Result::ok);
    let decoded = parsed.filter_map(|document| decode_parsed(document, Strictness::Ignore).ok());
    decoded.map(|decoded| decoded.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_of_the_manifest_is_read() {
        assert_eq!(roles().len(), MANIFEST.matches("kind: ClusterRole").count());
        assert!(roles().iter().all(|role| role.rules.as_ref().is_some_and(|rules| !rules.is_empty())));
    }

    #[test]
    fn a_missing_right_names_the_smallest_role_that_grants_it() {
        let core = |resource: &str| format!(r#"{resource}" in API group """#);
        let ours = |resource: &str| format!(r#"{resource}" in API group "evacuation.dev""#);
        for (verb, resource, place, role) in [
            ("create", ours("evacuations"), r#" in the namespace "shop""#, "evacuation:requester"),
            ("create", core("pods/eviction"), r#" in the namespace "shop""#, "evacuation:requester"),
            ("create", core("pods/eviction"), " at the cluster scope", "evacuation:node-drainer"),
            ("create", ours("nodeevacuations"), " at the cluster scope", "evacuation:node-drainer"),
            ("list", ours("nodeevacuations"), " at the cluster scope", "evacuation:view"),
            ("patch", core("nodes"), " at the cluster scope", "evacuation:node-drainer"),
            ("delete", core("pods"), r#" in the namespace "shop""#, "evacuation:pod-deleter"),
            ("delete", core("pods"), " at the cluster scope", "evacuation:pod-deleter"),
            ("create", ours("evacuations/respond"), r#" in the namespace "shop""#, "evacuation:responder"),
        ] {
            let message =
                format!(r#"drains cannot be listed: User "joe" cannot {verb} resource "{resource}{place}"#);
            let told = grant(&message).unwrap();
            assert!(
                told.starts_with(&format!("the ClusterRole {role} grants it, bound in ")),
                "{message}: {told}"
            );
        }
        let told = grant("it belongs to user \"jane\", and others need the verb override on nodeevacuations");
        assert_eq!(told.unwrap(), "the ClusterRole evacuation:override grants it");
        assert_eq!(
            grant(r#"User "joe" cannot delete resource "secrets" in API group "" in the namespace "a""#),
            None
        );
        assert_eq!(grant("pods \"db-0\" not found"), None);
    }
}
