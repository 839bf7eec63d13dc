//! Requests that a rule matches. Source of the rules: `k8s.io/apiserver/pkg/audit/policy/checker.go`.

use machinery_auth::{Attributes, ResourceAttributes};

use crate::{GroupResources, PolicyRule};

impl PolicyRule {
    /// Returns true when the rule is for that request.
    pub(crate) fn matches(&self, attributes: &Attributes) -> bool {
        let user = &attributes.user;
        if !any_or_has(&self.users, &user.name)
            || !(self.user_groups.is_empty() || self.user_groups.iter().any(|group| user.is_in_group(group)))
            || !any_or_has(&self.verbs, &attributes.verb)
        {
            return false;
        }
        if let Some(resource) = &attributes.resource {
            return self.non_resource_urls.is_empty() && self.matches_resource(resource);
        }
        let for_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
        let urls = &self.non_resource_urls;
        !for_resources && (urls.is_empty() || urls.iter().any(|url| matches_path(url, &attributes.path)))
    }

    fn matches_resource(&self, resource: &ResourceAttributes) -> bool {
        any_or_has(&self.namespaces, &resource.namespace)
            && (self.resources.is_empty() || self.resources.iter().any(|group| group.matches(resource)))
    }
}

impl GroupResources {
    fn matches(&self, request: &ResourceAttributes) -> bool {
        if self.group != "*" && self.group != request.group {
            return false;
        }
        let named = any_or_has(&self.resource_names, &request.name);
        self.resources.is_empty() || (named && self.resources.iter().any(|name| matches_name(name, request)))
    }
}

/// Returns true when a name of a rule, such as `pods`, `pods/*`, `*/scale` or `*`, is that of the request.
fn matches_name(name: &str, request: &ResourceAttributes) -> bool {
    let ResourceAttributes { resource, subresource, .. } = request;
    match name.split_once('/') {
        _ if name == "*" => true,
        None => subresource.is_empty() && name == resource,
        // As upstream: `pods/*` matches the pods themselves, too.
        Some((of, "*")) => of == resource,
        Some((of, part)) => !subresource.is_empty() && part == subresource && (of == "*" || of == resource),
    }
}

fn matches_path(url: &str, path: &str) -> bool {
    url == "*" || url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

/// Returns true when the list has the value, or is empty.
fn any_or_has(list: &[String], value: &str) -> bool {
    list.is_empty() || list.iter().any(|item| item == value)
}

#[cfg(test)]
mod tests {
    use machinery_auth::UserInfo;

    use super::*;
    use crate::{Level, Policy};

    fn user() -> UserInfo {
        UserInfo { name: "jane".to_owned(), groups: vec!["shop".to_owned()], ..UserInfo::default() }
    }

    fn matches(rule: &str, attributes: &Attributes) -> bool {
        let text =
            format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {{level: Metadata, {rule}}}\n");
        Policy::parse(text.as_bytes()).expect(rule).decide(attributes).level == Level::Metadata
    }

    #[test]
    fn rules_match_as_in_kube_apiserver() {
        let pods = ResourceAttributes::new("", "v1", "pods").in_namespace("n").named("a");
        let of = |resource| Attributes::of_resource(user(), "get", resource);
        let (pod, log) = (of(pods.clone()), of(pods.clone().subresource("log")));
        let node = of(ResourceAttributes::new("", "v1", "nodes"));
        let path = Attributes::of_path(user(), "get", "/healthz/etcd");
        // The rule, then a pod, its log, the nodes, a path.
        let cases = [
            ("", [true, true, true, true]),
            ("users: [jane]", [true; 4]),
            ("users: [joe]", [false; 4]),
            ("userGroups: [ship, shop]", [true; 4]),
            ("userGroups: [ship]", [false; 4]),
            ("verbs: [list, get]", [true; 4]),
            ("verbs: [list]", [false; 4]),
            ("namespaces: [n]", [true, true, false, false]),
            ("namespaces: ['']", [false, false, true, false]),
            ("resources: [{group: ''}]", [true, true, true, false]),
            ("resources: [{group: '*'}]", [true, true, true, false]),
            ("resources: [{group: apps}]", [false; 4]),
            ("resources: [{resources: [pods]}]", [true, false, false, false]),
            ("resources: [{resources: [pods/log]}]", [false, true, false, false]),
            ("resources: [{resources: ['pods/*']}]", [true, true, false, false]),
            ("resources: [{resources: ['*/log']}]", [false, true, false, false]),
            ("resources: [{resources: ['*']}]", [true, true, true, false]),
            ("resources: [{resources: [pods], resourceNames: [a]}]", [true, false, false, false]),
            ("resources: [{resources: [pods], resourceNames: [b]}]", [false; 4]),
            ("nonResourceURLs: ['/healthz*']", [false, false, false, true]),
            ("nonResourceURLs: ['/healthz/etcd']", [false, false, false, true]),
            ("nonResourceURLs: ['/healthz']", [false; 4]),
            ("nonResourceURLs: ['*']", [false, false, false, true]),
        ];
        for (rule, expected) in cases {
            assert_eq!([&pod, &log, &node, &path].map(|request| matches(rule, request)), expected, "{rule}");
        }
    }
}
