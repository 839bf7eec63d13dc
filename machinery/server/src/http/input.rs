//! Request bodies and their types.

use std::time::Duration;

use actix_web::web;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use machinery_openapi::patch_types;

use super::{delete_options, exchange::Exchange};
use crate::{
    ApiError, Reason, protobuf,
    resource::{PatchKind, Resource, Syntax},
};

/// Kind of the body of a PATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchBody {
    /// A patch of the object.
    Patch(PatchKind),
    /// A configuration to apply.
    Apply,
}

/// Maximum size of a body, as upstream.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;
/// Maximum size of a body that is posted to an action.
pub(crate) const ACTION_LIMIT: usize = 64 * 1024;

/// Reads the whole body.
///
/// # Errors
///
/// `RequestEntityTooLarge` when it is longer than `limit`, `Timeout` when it is not there within `patience`.
pub(crate) async fn read(payload: web::Payload, limit: usize, patience: Duration) -> Result<Bytes, ApiError> {
    let whole = tokio::time::timeout(patience, read_whole(payload, limit)).await;
    whole.unwrap_or_else(|_| {
        let message = format!("Timeout: the body did not arrive within {patience:?}");
        Err(ApiError::status(Reason::Timeout, message))
    })
}

async fn read_whole(mut payload: web::Payload, limit: usize) -> Result<Bytes, ApiError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| {
            ApiError::status(Reason::BadRequest, format!("the body cannot be read: {error}"))
        })?;
        if body.len() + chunk.len() > limit {
            let message = format!("Request entity too large: limit is {limit}");
            return Err(ApiError::status(Reason::RequestEntityTooLarge, message));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Returns the syntax of an object in the body.
pub(crate) fn syntax(exchange: &Exchange<'_>) -> Result<Syntax, ApiError> {
    match media_type(exchange).as_str() {
        "" | "application/json" => Ok(Syntax::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Syntax::Yaml),
        _ => Err(unsupported("application/json, application/yaml")),
    }
}

/// Returns the syntax of the options of a deletion.
pub(crate) fn options_syntax(exchange: &Exchange<'_>) -> Result<delete_options::Syntax, ApiError> {
    match media_type(exchange).as_str() {
        "" | "application/json" => Ok(delete_options::Syntax::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(delete_options::Syntax::Yaml),
        protobuf::MEDIA_TYPE => Ok(delete_options::Syntax::Protobuf),
        _ => Err(unsupported("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

/// Returns the kind of the body of a PATCH of a resource.
pub(crate) fn patch_body(exchange: &Exchange<'_>, resource: &dyn Resource) -> Result<PatchBody, ApiError> {
    let strategic = resource.merges_strategically();
    match media_type(exchange).as_str() {
        "application/strategic-merge-patch+json" if strategic => Ok(PatchBody::Patch(PatchKind::Strategic)),
        "application/json-patch+json" => Ok(PatchBody::Patch(PatchKind::Json)),
        "application/merge-patch+json" => Ok(PatchBody::Patch(PatchKind::Merge)),
        "application/apply-patch+yaml" => Ok(PatchBody::Apply),
        _ => Err(unsupported(&patch_types(strategic).join(", "))),
    }
}

/// Returns the syntax of the body of any request; `None` when its media type is not supported.
pub(crate) fn body_syntax(exchange: &Exchange<'_>) -> Option<Syntax> {
    if exchange.info.verb != "patch" {
        return syntax(exchange).ok();
    }
    match patch_body(exchange, exchange.served()?.resource.as_ref()).ok()? {
        PatchBody::Patch(_) => Some(Syntax::Json),
        PatchBody::Apply => Some(Syntax::Yaml),
    }
}

fn media_type(exchange: &Exchange<'_>) -> String {
    let header = exchange.header("content-type");
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn unsupported(accepted: &str) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    ApiError::status(Reason::UnsupportedMediaType, message)
}
