//! Creating, changing, deleting, and posting to actions.

use std::sync::Arc;

use actix_web::http::StatusCode;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use machinery_auth::{UserInfo, Verdict};
use machinery_openapi::{GroupVersion, Structure};

use super::{
    delete_options::{RequestedDeletion, delete_options},
    exchange::Exchange,
    input, list_options, render,
    reply::Reply,
};
use crate::{
    ApiError, DeleteContext, NamespaceState, Reason, RequestContext,
    admission::admit_create,
    registry::{Listed, Part},
    resource::{Body, Deleted, Patch, Posted, Resource},
    resource_name::ResourceName,
    status,
};

/// Verb that a caller needs, besides `delete`, in order to delete an object that cannot be decoded.
const UNSAFE_DELETE: &str = "unsafe-delete-ignore-read-errors";

/// Maximum number of objects of a collection that are deleted at once.
const DELETIONS: usize = 8;

/// POST to a collection.
pub(crate) async fn create(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    bytes: Bytes,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let (context, body) = body(exchange, user, resource.name(), bytes, "CreateOptions")?;
    if let Some(namespaces) = exchange.core.namespaces.as_deref().filter(|_| resource.info().namespaced) {
        let admitted = admit_create(namespaces, resource.name(), &context.namespace).await;
        if let Err(refusal) = admitted {
            if let Some(target) = refusal.target {
                exchange.retarget(target);
            }
            return Err(refusal.error);
        }
    }
    let item =
        resource.create(&context, &body).await.map_err(|error| named(exchange, resource, &body, error))?;
    Ok(Reply::Json(StatusCode::CREATED, renderer.object(item.as_ref())?))
}

/// PUT.
pub(crate) async fn update(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    name: &str,
    part: Part,
    bytes: Bytes,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let (context, body) = body(exchange, user, resource.name(), bytes, "UpdateOptions")?;
    let item = resource.update(&context, name, part, &body).await?;
    Ok(Reply::ok(renderer.object(item.as_ref())?))
}

/// PATCH.
pub(crate) async fn patch(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    name: &str,
    part: Part,
    bytes: Bytes,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let kind = input::patch_kind(exchange)?;
    let strictness = exchange.params.strictness("PatchOptions")?;
    let dry_run = exchange.params.dry_run("PatchOptions")?;
    let structure = structure(exchange, resource.name())?;
    let context = exchange.enter(user, dry_run);
    let item = resource.patch(&context, name, part, Patch { bytes, kind, strictness, structure }).await?;
    Ok(Reply::ok(renderer.object(item.as_ref())?))
}

/// POST to an action.
pub(crate) async fn post(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    action: &dyn Posted,
    name: &str,
    bytes: Bytes,
) -> Result<Reply, ApiError> {
    // This rejects forms that are not served. The reply of an action has only one form.
    exchange.renderer(resource)?;
    let (context, body) = body(exchange, user, &action.body_name(), bytes, "CreateOptions")?;
    let item = action.post(&context, name, &body).await?;
    Ok(Reply::Json(StatusCode::CREATED, item.json()?))
}

/// DELETE of one.
pub(crate) async fn delete(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    name: &str,
    bytes: Bytes,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let requested = requested(exchange, &bytes, false)?;
    if requested.ignore_read_error {
        return delete_undecodable(exchange, user, resource, name, requested.dry_run).await;
    }
    let context = exchange.enter(user, requested.dry_run);
    let delete = delete_context(exchange, &context).await;
    let Deleted { item, removed } = resource.delete(&context, name, requested.options, delete).await?;
    if removed {
        let status = status::deleted(&resource.name().target(name), item.metadata().uid.clone());
        return Ok(Reply::ok(render::json(&status)?));
    }
    let code = if requested.accepted_when_pending { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(Reply::Json(code, renderer.object(item.as_ref())?))
}

/// DELETE of one that cannot be decoded. It needs a verb of its own, as upstream.
async fn delete_undecodable(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    name: &str,
    dry_run: bool,
) -> Result<Reply, ApiError> {
    let mut attributes = exchange.info.attributes(user.clone());
    UNSAFE_DELETE.clone_into(&mut attributes.verb);
    let verdict = exchange.core.authorizer.authorize(&attributes).await;
    let verdict = verdict.map_err(|source| ApiError::internal("authorizing an unsafe deletion", source))?;
    if let Verdict::Denied { reason } = verdict {
        let message = format!(
            "{} {name:?} is forbidden: not permitted to do {UNSAFE_DELETE:?}, reason: {reason}",
            resource.name()
        );
        return Err(ApiError::status(Reason::Forbidden, message));
    }
    let context = exchange.enter(user, dry_run);
    resource.delete_undecodable(&context, name).await?;
    Ok(Reply::ok(render::json(&status::deleted(&resource.name().target(name), None))?))
}

/// DELETE of many: those that the selectors pick now. As upstream, this is not one transaction: objects that
/// were deleted before a failure stay deleted.
pub(crate) async fn delete_collection(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    bytes: Bytes,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let query = list_options::list_options(&exchange.params, resource)?;
    let requested = requested(exchange, &bytes, true)?;
    let context = exchange.enter(user, requested.dry_run);
    let delete = delete_context(exchange, &context).await;
    let listed = resource.list(&context, query).await?;
    let deletions = listed.items.iter().map(|item| {
        let name = item.metadata().name.clone().unwrap_or_default();
        let (context, options) = (&context, requested.options.clone());
        async move {
            match resource.delete(context, &name, options, delete).await {
                // Another caller deleted it first.
                Err(error) if error.reason() == Reason::NotFound => Ok(None),
                result => result.map(|deleted| Some(deleted.item)),
            }
        }
    });
    let deletions: Vec<_> = deletions.collect();
    let deleted: Vec<_> = stream::iter(deletions).buffered(DELETIONS).try_collect().await?;
    let items = deleted.into_iter().flatten().collect();
    Ok(Reply::ok(renderer.list(&Listed { items, next: None, remaining: None, ..listed })?))
}

fn body(
    exchange: &Exchange<'_>,
    user: UserInfo,
    kind: &ResourceName,
    bytes: Bytes,
    options: &str,
) -> Result<(Arc<RequestContext>, Body), ApiError> {
    let syntax = input::syntax(exchange)?;
    let strictness = exchange.params.strictness(options)?;
    let dry_run = exchange.params.dry_run(options)?;
    let structure = structure(exchange, kind)?;
    Ok((exchange.enter(user, dry_run), Body { bytes, syntax, strictness, structure }))
}

fn structure(exchange: &Exchange<'_>, kind: &ResourceName) -> Result<Structure, ApiError> {
    let group_version = GroupVersion { group: kind.group.clone(), version: kind.version.clone() };
    let found = exchange.core.documents.structure(&group_version, &kind.kind);
    found
        .cloned()
        .ok_or_else(|| ApiError::internal(format!("reading {}", kind.kind), "the kind has no schema"))
}

fn requested(exchange: &Exchange<'_>, bytes: &[u8], collection: bool) -> Result<RequestedDeletion, ApiError> {
    let syntax = if bytes.is_empty() { crate::resource::Syntax::Json } else { input::syntax(exchange)? };
    delete_options(bytes, syntax, &exchange.params, collection)
}

/// Finds out if the namespace is terminating. If that fails, the stricter rules of an active namespace apply.
async fn delete_context(exchange: &Exchange<'_>, context: &RequestContext) -> DeleteContext {
    let namespaces = exchange.core.namespaces.as_deref().filter(|_| !context.namespace.is_empty());
    let Some(namespaces) = namespaces else {
        return DeleteContext { namespace_terminating: false };
    };
    let namespace_terminating = match namespaces.state(&context.namespace).await {
        Ok(state) => state != NamespaceState::Active,
        Err(error) => {
            tracing::warn!(namespace = context.namespace, %error, "namespace lookup failed: treating the namespace as active");
            false
        }
    };
    DeleteContext { namespace_terminating }
}

/// Sets the target of a failed creation from the body: the path does not name the object.
fn named(exchange: &Exchange<'_>, resource: &dyn Resource, body: &Body, error: ApiError) -> ApiError {
    if let Some(name) = body.name() {
        exchange.retarget(resource.name().target(&name));
    }
    error
}
