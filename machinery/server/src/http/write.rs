//! Creating, changing, deleting, and posting to actions.

use std::sync::Arc;

use actix_web::http::StatusCode;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use machinery_auth::{UserInfo, Verdict};
use machinery_tracing::Span;

use super::{
    chain,
    delete_options::{RequestedDeletion, Syntax, delete_options},
    exchange::Exchange,
    input::{self, PatchBody},
    list_options, render,
    reply::Reply,
    write_options::WriteOptions,
};
use crate::{
    ApiError, DeleteContext, NamespaceState, Reason, RequestContext,
    admission::admit_create,
    registry::Part,
    resource::{Applied, Body, Deleted, GetVersion, Patch, Posted, Resource},
    status,
};

/// Verb that a caller needs, besides `delete`, in order to delete an object that cannot be decoded.
const UNSAFE_DELETE: &str = "unsafe-delete-ignore-read-errors";

/// Number of times that an apply is repeated as an update, because another caller has just created the
/// object, or as a creation, because another has just deleted it.
const APPLIES: u32 = 5;

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
    // As upstream, a creation in a media type that is not served is refused before its options are read.
    input::syntax(exchange)?;
    let (context, body) = body(exchange, user, &WriteOptions::of_create(&exchange.params)?, bytes)?;
    admit_namespace(exchange, resource, &context).await?;
    let item =
        resource.create(&context, &body).await.map_err(|error| named(exchange, resource, &body, error))?;
    Ok(Reply::Json(StatusCode::CREATED, renderer.object(&item)?))
}

/// Rejects a creation in a namespace that does not exist or is being deleted.
async fn admit_namespace(
    exchange: &Exchange<'_>,
    resource: &dyn Resource,
    context: &RequestContext,
) -> Result<(), ApiError> {
    let namespaces = exchange.core.namespaces.as_deref().filter(|_| resource.info().namespaced);
    let Some(namespaces) = namespaces else { return Ok(()) };
    let admitted = admit_create(namespaces, resource.name(), &context.namespace);
    let admitted = Span::run_part("admission", admitted).await;
    admitted.map_err(|refusal| {
        if let Some(target) = refusal.target {
            exchange.retarget(target);
        }
        refusal.error
    })
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
    let (context, body) = body(exchange, user, &WriteOptions::of_update(&exchange.params)?, bytes)?;
    let item = resource.update(&context, name, part, &body).await?;
    Ok(Reply::ok(renderer.object(&item)?))
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
    let body = input::patch_body(exchange, resource)?;
    let renderer = exchange.renderer(resource)?;
    let options = WriteOptions::of_patch(&exchange.params, body)?;
    let context = exchange.enter(user, &options);
    let PatchBody::Patch(kind) = body else {
        let applied = Applied::read(&bytes, options.strictness, options.force)?;
        if let Err(error) = applied.check_type(resource.name()) {
            if part != Part::Main {
                resource.get(&context, name, GetVersion::Newest).await?;
            }
            return Err(error);
        }
        return apply(exchange, &context, resource, name, part, &applied).await;
    };
    let patch = Patch::new(kind, bytes, options.strictness)?;
    let item = resource.patch(&context, name, part, patch).await?;
    Ok(Reply::ok(renderer.object(&item)?))
}

/// Server-side apply. As upstream, it creates an object that does not exist, for a caller that may create it.
async fn apply(
    exchange: &Exchange<'_>,
    context: &Arc<RequestContext>,
    resource: &dyn Resource,
    name: &str,
    part: Part,
    applied: &Applied,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let creating = Arc::new(context.creating());
    let mut attempts = 0..APPLIES;
    loop {
        match resource.apply(context, name, part, applied).await {
            Err(error) if error.reason() == Reason::NotFound && part == Part::Main => {
                if attempts.next().is_none() {
                    return Err(error);
                }
            }
            result => return Ok(Reply::ok(renderer.object(&result?)?)),
        }
        chain::authorize(exchange, &exchange.info.attributes_of("create", context.user.clone())).await?;
        admit_namespace(exchange, resource, &creating).await?;
        match resource.apply_new(&creating, name, applied).await {
            // Another caller has just created it.
            Err(error) if error.reason() == Reason::AlreadyExists => {}
            result => return Ok(Reply::Json(StatusCode::CREATED, renderer.object(&result?)?)),
        }
    }
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
    let (context, body) = body(exchange, user, &WriteOptions::of_create(&exchange.params)?, bytes)?;
    let item = action.post(&context, resource.name(), name, &body).await?;
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
        return delete_undecodable(exchange, user, resource, name, &requested.write).await;
    }
    let context = exchange.enter(user, &requested.write);
    let delete = delete_context(exchange, &context).await;
    let Deleted { item, removed } = resource.delete(&context, name, requested.options, delete).await?;
    if removed {
        let uid = item.decoded()?.metadata().uid.clone();
        let status = status::deleted(&resource.name().target(name), uid);
        return Ok(Reply::ok(render::json(&status)?));
    }
    let code = if requested.accepted_when_pending { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(Reply::Json(code, renderer.object(&item)?))
}

/// DELETE of one that cannot be decoded. It needs a verb of its own, as upstream.
async fn delete_undecodable(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    name: &str,
    options: &WriteOptions,
) -> Result<Reply, ApiError> {
    let verdict =
        exchange.core.authorizer.authorize(&exchange.info.attributes_of(UNSAFE_DELETE, user.clone())).await;
    let verdict = verdict.map_err(|source| ApiError::internal("authorizing an unsafe deletion", source))?;
    if let Verdict::Denied { reason } = verdict {
        let message = format!(
            "{} {name:?} is forbidden: not permitted to do {UNSAFE_DELETE:?}, reason: {reason}",
            resource.name()
        );
        return Err(ApiError::status(Reason::Forbidden, message));
    }
    let context = exchange.enter(user, options);
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
    let context = exchange.enter(user, &requested.write);
    let delete = delete_context(exchange, &context).await;
    let listed = resource.list(&context, query).await?;
    let deletions = listed.items.iter().map(|item| {
        let name = item.name().to_owned();
        let (context, options) = (&context, requested.options.clone());
        async move {
            match resource.delete(context, &name, options, delete).await {
                // Another caller deleted it first.
                Err(error) if error.reason() == Reason::NotFound => Ok(()),
                result => result.map(|_| ()),
            }
        }
    });
    let deletions: Vec<_> = deletions.collect();
    let (): () = stream::iter(deletions).buffered(DELETIONS).try_collect().await?;
    // As upstream, the reply shows the objects as they were before.
    Ok(Reply::ok(renderer.list(&listed)?))
}

fn body(
    exchange: &Exchange<'_>,
    user: UserInfo,
    options: &WriteOptions,
    bytes: Bytes,
) -> Result<(Arc<RequestContext>, Body), ApiError> {
    let syntax = input::syntax(exchange)?;
    let context = exchange.enter(user, options);
    Ok((context, Body { bytes, syntax, strictness: options.strictness }))
}

fn requested(exchange: &Exchange<'_>, bytes: &[u8], collection: bool) -> Result<RequestedDeletion, ApiError> {
    let syntax = if bytes.is_empty() { Syntax::Json } else { input::options_syntax(exchange)? };
    // As upstream, options that are null are none.
    let bytes = if bytes == b"null" { &[] } else { bytes };
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
