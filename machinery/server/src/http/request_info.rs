//! Purpose of a request, read from its method, path and query. Source of the rules:
//! `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.

use machinery_auth::{Attributes, ResourceAttributes, UserInfo};

use super::params::Params;
use crate::{Operation, selector::FieldSelector};

/// Purpose of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// For resources `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`, or
    /// empty for a method that resources do not have. For other paths the method in lower case.
    pub(crate) verb: String,
    pub(crate) path: String,
    /// Absent if the path is not that of a resource.
    pub(crate) resource: Option<ResourceRequest>,
}

/// The resource that a request is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceRequest {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for requests over all namespaces and for cluster-scoped resources.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    /// The name in the path; empty for collections.
    pub(crate) name: String,
    /// The name that a collection's field selector narrows it to.
    pub(crate) selected_name: String,
    pub(crate) subresource: String,
    /// True if the path continues after the subresource.
    pub(crate) has_rest: bool,
}

impl RequestInfo {
    pub(crate) fn new(method: &str, path: &str, params: &Params) -> Self {
        let resource = ResourceRequest::parse(path);
        let Some(mut resource) = resource else {
            return Self { verb: method.to_ascii_lowercase(), path: path.to_owned(), resource: None };
        };
        let collection = resource.name.is_empty();
        let verb = match (method, collection) {
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("GET" | "HEAD", false) => "get",
            ("GET" | "HEAD", true) if params.is_true("watch") => "watch",
            ("GET" | "HEAD", true) => "list",
            ("DELETE", false) => "delete",
            ("DELETE", true) => "deletecollection",
            _ => "",
        };
        if matches!(verb, "watch" | "list" | "deletecollection")
            && let Some(Ok(selector)) = params.get("fieldSelector").map(FieldSelector::parse)
        {
            selector.exact("metadata.name").unwrap_or_default().clone_into(&mut resource.selected_name);
        }
        Self { verb: verb.to_owned(), path: path.to_owned(), resource: Some(resource) }
    }

    /// True if the request may run for a long time.
    pub(crate) fn is_watch(&self) -> bool {
        self.resource.is_some() && self.verb == "watch"
    }

    /// True if the request changes nothing.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch" | "head")
    }

    /// Returns the operation in the words of admission.
    pub(crate) fn operation(&self) -> Operation {
        match self.verb.as_str() {
            "create" => Operation::Create,
            "update" | "patch" => Operation::Update,
            "delete" | "deletecollection" => Operation::Delete,
            _ => Operation::Read,
        }
    }

    /// Returns the attributes to authorise.
    pub(crate) fn attributes(&self, user: UserInfo) -> Attributes {
        self.attributes_of(&self.verb, user)
    }

    /// Returns the attributes to authorise another verb on the same path.
    pub(crate) fn attributes_of(&self, verb: &str, user: UserInfo) -> Attributes {
        let Some(resource) = &self.resource else {
            return Attributes::of_path(user, verb.to_owned(), self.path.clone());
        };
        let name = if resource.name.is_empty() { &resource.selected_name } else { &resource.name };
        let attributes = ResourceAttributes::new(&resource.group, &resource.version, &resource.resource)
            .subresource(&resource.subresource)
            .in_namespace(&resource.namespace)
            .named(name);
        Attributes::of_resource(user, verb.to_owned(), attributes)
    }
}

impl ResourceRequest {
    /// `/apis/GROUP/VERSION/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`.
    fn parse(path: &str) -> Option<Self> {
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        if parts.len() < 4 || parts.first() != Some(&"apis") {
            return None;
        }
        let rest = parts.split_off(3);
        let [_, group, version] = parts.as_slice() else {
            return None;
        };
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, resource @ ..] if !resource.is_empty() => (*namespace, resource),
            rest => ("", rest),
        };
        let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
        Some(Self {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            namespace: namespace.to_owned(),
            resource: part(0),
            name: part(1),
            selected_name: String::new(),
            subresource: part(2),
            has_rest: rest.len() > 3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, url: &str) -> RequestInfo {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        RequestInfo::new(method, path, &Params::parse(query).expect("a query"))
    }

    #[test]
    fn requests_are_read_as_upstream_reads_them() {
        // Method, URL, then verb, namespace, resource, name for the authoriser, subresource.
        let cases = [
            ("GET", "/apis/g/v1/namespaces/n/pots", ["list", "n", "pots", "", ""]),
            ("GET", "/apis/g/v1/namespaces/n/pots/", ["list", "n", "pots", "", ""]),
            ("GET", "/apis/g/v1/namespaces/n/pots?watch=true", ["watch", "n", "pots", "", ""]),
            ("GET", "/apis/g/v1/namespaces/n/pots?watch=1", ["watch", "n", "pots", "", ""]),
            ("GET", "/apis/g/v1/namespaces/n/pots?watch=false", ["list", "n", "pots", "", ""]),
            (
                "GET",
                "/apis/g/v1/namespaces/n/pots?fieldSelector=metadata.name%3Da",
                ["list", "n", "pots", "a", ""],
            ),
            ("GET", "/apis/g/v1/pots", ["list", "", "pots", "", ""]),
            ("GET", "/apis/g/v1/namespaces/n/pots/a", ["get", "n", "pots", "a", ""]),
            ("GET", "/apis/g/v1/namespaces/n/pots/a?watch=true", ["get", "n", "pots", "a", ""]),
            ("PUT", "/apis/g/v1/namespaces/n/pots/a/status", ["update", "n", "pots", "a", "status"]),
            ("PATCH", "/apis/g/v1/pans/a", ["patch", "", "pans", "a", ""]),
            ("POST", "/apis/g/v1/namespaces/n/pots/a/cook", ["create", "n", "pots", "a", "cook"]),
            ("DELETE", "/apis/g/v1/namespaces/n/pots/a", ["delete", "n", "pots", "a", ""]),
            ("DELETE", "/apis/g/v1/namespaces/n/pots", ["deletecollection", "n", "pots", "", ""]),
            ("OPTIONS", "/apis/g/v1/pans", ["", "", "pans", "", ""]),
        ];
        for (method, url, [verb, namespace, resource, name, subresource]) in cases {
            let attributes = info(method, url).attributes(UserInfo::default());
            let found = attributes.resource.expect("a resource");
            let found = (attributes.verb, found.namespace, found.resource, found.name, found.subresource);
            let expected = [verb, namespace, resource, name, subresource].map(str::to_owned);
            assert_eq!(<[String; 5]>::from(found), expected, "{method} {url}");
        }
    }

    #[test]
    fn other_paths_are_authorised_by_their_method() {
        for path in
            ["/", "/healthz", "/apis", "/apis/g", "/apis/g/v1", "/openapi/v3/apis/g/v1", "/api/v1/pods"]
        {
            let attributes = info("GET", path).attributes(UserInfo::default());
            assert!(attributes.resource.is_none(), "{path}");
            assert_eq!((attributes.verb.as_str(), attributes.path.as_str()), ("get", path));
        }
    }
}
