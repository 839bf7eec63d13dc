//! Paths other than those of resources: discovery, OpenAPI, version, metrics.

use bytes::Bytes;
use machinery_openapi::JSON;
use serde_json::json;

use super::{accept::not_acceptable, encoding::Encoding, exchange::Exchange, render, reply::Reply};
use crate::{ApiError, Reason, resource::method_not_allowed};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves a path that is not that of a resource.
pub(crate) fn path(exchange: &Exchange<'_>) -> Result<Reply, ApiError> {
    let path = exchange.info.path.trim_end_matches('/');
    let documents = &exchange.core.documents;
    let known = documents.has(path) || matches!(path, "" | "/version" | "/metrics");
    if !known {
        return Err(not_found());
    }
    if !exchange.info.is_read() {
        return Err(method_not_allowed());
    }
    match path {
        "" => {
            let own = ["/healthz", "/livez", "/metrics", "/readyz", "/version"];
            let mut paths: Vec<&str> = documents.paths().chain(own).collect();
            paths.sort_unstable();
            Ok(Reply::ok(render::json(&json!({"paths": paths}))?))
        }
        "/version" => Ok(Reply::ok(version(&exchange.core.options.version)?)),
        "/metrics" => {
            exchange.core.measure_storage();
            let body = Bytes::from(exchange.core.metrics.text()?);
            Ok(Reply::Document { content_type: OPENMETRICS.to_owned(), etag: None, immutable: false, body })
        }
        path => document(exchange, path),
    }
}

fn document(exchange: &Exchange<'_>, path: &str) -> Result<Reply, ApiError> {
    let documents = &exchange.core.documents;
    let is_openapi = path.starts_with("/openapi/");
    let Some(document) = documents.find(path, exchange.header("accept")) else {
        // Discovery is served as objects are; OpenAPI has media types of its own.
        let plain =
            documents.find(path, JSON).filter(|_| !is_openapi && exchange.encoding() == Encoding::Yaml);
        let plain = plain.ok_or_else(|| not_acceptable("application/json"))?;
        return Ok(Reply::ok(Bytes::copy_from_slice(plain.body())));
    };
    let etag = document.etag();
    let hash = exchange.params.get("hash").filter(|_| path.starts_with("/openapi/v3/"));
    if hash.is_some_and(|hash| hash != document.hash()) {
        return Ok(Reply::Moved(format!("{path}?hash={}", document.hash())));
    }
    if document.matches(exchange.header("if-none-match")) {
        return Ok(Reply::NotModified(etag));
    }
    let body = Bytes::copy_from_slice(document.body());
    let content_type = document.content_type().to_owned();
    Ok(Reply::Document { content_type, etag: Some(etag), immutable: hash.is_some(), body })
}

/// The failure of an unknown path.
pub(crate) fn not_found() -> ApiError {
    ApiError::status(Reason::NotFound, "the server could not find the requested resource")
}

/// `version.Info`, as `kubectl version` reads it.
fn version(version: &str) -> Result<Bytes, ApiError> {
    let number = version.trim_start_matches('v');
    let mut parts = number.split(['.', '-', '+']);
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    let (major, minor) = (part(parts.next()), part(parts.next()));
    render::json(&json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{number}"),
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_reported_in_parts() {
        let told: serde_json::Value =
            serde_json::from_slice(&version("1.2.3-alpha").expect("JSON")).expect("JSON");
        assert_eq!((&told["major"], &told["minor"]), (&json!("1"), &json!("2")));
        assert_eq!(told["gitVersion"], "v1.2.3-alpha");
    }
}
