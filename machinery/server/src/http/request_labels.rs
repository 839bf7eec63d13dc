//! Labels of a request in the metrics. Source of the rules: `k8s.io/apiserver/pkg/endpoints/metrics`.

use super::exchange::Exchange;
use crate::metrics::{RequestLabels, WATCH};

/// Label of unknown names.
const OTHER: &str = "other";
/// Value of the label `component`, as in kube-apiserver.
const COMPONENT: &str = "apiserver";

/// Returns the labels of a request. Names that callers made up are no labels: each would be kept for ever.
pub(crate) fn request_labels(exchange: &Exchange<'_>) -> RequestLabels {
    let dry_run = match exchange.params.dry_run() {
        Ok(false) => "",
        Ok(true) => "All",
        Err(_) => "invalid",
    };
    let labels = RequestLabels {
        dry_run: dry_run.to_owned(),
        component: COMPONENT.to_owned(),
        ..RequestLabels::default()
    };
    let Some(request) = &exchange.info.resource else {
        return RequestLabels { verb: verb(exchange).to_owned(), ..labels };
    };
    let Some(served) = exchange.served() else { return labels };
    let scope = if !request.name.is_empty() || exchange.info.verb == "create" {
        "resource"
    } else if request.namespace.is_empty() {
        "cluster"
    } else {
        "namespace"
    };
    let subresource = if served.has(&request.subresource) { &request.subresource } else { OTHER };
    RequestLabels {
        verb: verb(exchange).to_owned(),
        group: request.group.clone(),
        version: request.version.clone(),
        resource: request.resource.clone(),
        subresource: subresource.to_owned(),
        scope: scope.to_owned(),
        ..labels
    }
}

/// Returns the label of the verb. It is the method, but for lists, watches and applies.
fn verb(exchange: &Exchange<'_>) -> &'static str {
    match exchange.info.verb.as_str() {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => WATCH,
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if exchange.header("content-type").starts_with("application/apply-patch") => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => OTHER,
    }
}
