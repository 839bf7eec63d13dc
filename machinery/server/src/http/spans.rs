//! Spans of a request. Source of the names: `k8s.io/apiserver/pkg/endpoints/filters/traces.go` and
//! `k8s.io/apiserver/pkg/endpoints/handlers`.

use machinery_auth::{PRIVILEGED_GROUP, UserInfo};
use machinery_tracing::{RequestStart, Span, Traces};

use super::{exchange::Exchange, request_info::RequestInfo};

/// Group whose members may decide on sampling, besides [`PRIVILEGED_GROUP`].
const MONITORING_GROUP: &str = "system:monitoring";
/// Maximum length of the attribute `audit-id`, as upstream.
const AUDIT_ID: usize = 64;
/// Code from which on a request counts as failed.
const SERVER_ERROR: u16 = 500;

/// Starts the span of a request.
pub(super) fn request(exchange: &Exchange<'_>, traces: &Traces, user: &UserInfo) -> Span {
    let method = exchange.request.method().as_str();
    let span = traces.request(RequestStart {
        name: &name(method, &exchange.info),
        received: exchange.received.into(),
        traceparent: exchange.header("traceparent"),
        tracestate: exchange.header("tracestate"),
        trusted: user.is_in_group(PRIVILEGED_GROUP) || user.is_in_group(MONITORING_GROUP),
    });
    if span.is_sampled() {
        let audit_id = exchange.audit_id.get(..AUDIT_ID).unwrap_or(&exchange.audit_id);
        span.text("http.request.method", method);
        span.text("url.path", &exchange.info.path);
        span.text("http.target", exchange.request.uri().path_and_query().map_or("", |uri| uri.as_str()));
        span.text("user_agent.original", exchange.header("user-agent"));
        span.text("client.address", &exchange.address());
        span.text("audit-id", audit_id);
    }
    span
}

/// Notes the code of the reply.
pub(super) fn answered(span: &Span, code: u16) {
    span.number("http.response.status_code", code.into());
    if code >= SERVER_ERROR {
        span.fail("");
    }
}

/// Returns the name of the span of a verb's handler.
pub(super) fn handler(verb: &str) -> &'static str {
    match verb {
        "get" => "Get",
        "list" => "List",
        "watch" => "Watch",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" | "deletecollection" => "Delete",
        _ => "Other",
    }
}

/// Returns the name of a request's span: the method, and the path of a resource without names.
fn name(method: &str, info: &RequestInfo) -> String {
    let Some(resource) = &info.resource else { return method.to_owned() };
    let mut name = format!("{method} /apis/{}/{}", resource.group, resource.version);
    if !resource.namespace.is_empty() {
        name.push_str("/namespaces/{:namespace}");
    }
    name = format!("{name}/{}", resource.resource);
    if !resource.name.is_empty() {
        name.push_str("/{:name}");
    }
    if !resource.subresource.is_empty() {
        name = format!("{name}/{}", resource.subresource);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::params::Params;

    #[test]
    fn a_span_is_named_by_the_path_without_the_names_in_it() {
        let cases = [
            ("/metrics", "GET"),
            ("/apis/g/v1/pans", "GET /apis/g/v1/pans"),
            ("/apis/g/v1/namespaces/n/pots", "GET /apis/g/v1/namespaces/{:namespace}/pots"),
            (
                "/apis/g/v1/namespaces/n/pots/a/status",
                "GET /apis/g/v1/namespaces/{:namespace}/pots/{:name}/status",
            ),
        ];
        for (path, expected) in cases {
            assert_eq!(name("GET", &RequestInfo::new("GET", path, &Params::default())), expected);
        }
    }
}
