//! Choice of the handler for a request for a resource.

use std::sync::Arc;

use bytes::Bytes;
use machinery_auth::UserInfo;

use super::{
    caller::Caller, exchange::Exchange, input, other::not_found, read, reply::Reply,
    request_info::ResourceRequest, watch, write,
};
use crate::{
    ApiError, Verb,
    registry::Part,
    resource::{Posted, method_not_allowed},
    server::Served,
};

/// Handler of a request for a resource.
#[derive(Clone)]
enum Route {
    Get,
    List,
    Watch,
    Create,
    Update(Part),
    Patch(Part),
    Delete,
    DeleteCollection,
    Action(Arc<dyn Posted>),
}

/// Returns the maximum size of the body of a request.
pub(crate) fn body_limit(exchange: &Exchange<'_>) -> usize {
    let subresource = exchange.info.resource.as_ref().map(|request| request.subresource.as_str());
    let action = exchange.served().zip(subresource).and_then(|(served, name)| served.action(name));
    if action.is_some() { input::ACTION_LIMIT } else { input::LIMIT }
}

/// Serves a request for a resource.
pub(crate) async fn resource(
    exchange: &Exchange<'_>,
    user: UserInfo,
    caller: &Caller,
    body: Bytes,
) -> Result<Reply, ApiError> {
    let (Some(served), Some(request)) = (exchange.served(), exchange.info.resource.as_ref()) else {
        return Err(not_found());
    };
    let scale = served.scale.as_ref().filter(|_| request.subresource == "scale");
    let (resource, name) = (scale.unwrap_or(&served.resource), request.name.as_str());
    match route(served, request, &exchange.info.verb)? {
        Route::Get => read::get(exchange, user, resource.as_ref(), name).await,
        Route::List => read::list(exchange, user, resource.as_ref()).await,
        Route::Watch => watch::watch(exchange, user, caller, resource.clone()).await,
        Route::Create => write::create(exchange, user, resource.as_ref(), body).await,
        Route::Update(part) => write::update(exchange, user, resource.as_ref(), name, part, body).await,
        Route::Patch(part) => write::patch(exchange, user, resource.as_ref(), name, part, body).await,
        Route::Delete => write::delete(exchange, user, resource.as_ref(), name, body).await,
        Route::DeleteCollection => write::delete_collection(exchange, user, resource.as_ref(), body).await,
        Route::Action(action) => {
            write::post(exchange, user, resource.as_ref(), action.as_ref(), name, body).await
        }
    }
}

/// Returns the handler, if the path exists and the method is allowed there.
fn route(served: &Served, request: &ResourceRequest, verb: &str) -> Result<Route, ApiError> {
    let resource = served.resource.as_ref();
    let namespaced = resource.info().namespaced;
    let whole = namespaced && request.namespace.is_empty();
    if request.has_rest
        || (!namespaced && !request.namespace.is_empty())
        || (whole && !request.name.is_empty())
    {
        return Err(not_found());
    }
    if request.subresource == "status" && resource.has_status() {
        return match verb {
            "get" => Ok(Route::Get),
            "update" => Ok(Route::Update(Part::Status)),
            "patch" => Ok(Route::Patch(Part::Status)),
            _ => Err(method_not_allowed()),
        };
    }
    if request.subresource == "scale" && served.scale.is_some() {
        return match verb {
            "get" => Ok(Route::Get),
            "update" => Ok(Route::Update(Part::Scale)),
            "patch" => Ok(Route::Patch(Part::Scale)),
            _ => Err(method_not_allowed()),
        };
    }
    if !request.subresource.is_empty() {
        let action = served.action(&request.subresource).ok_or_else(not_found)?;
        return if verb == "create" { Ok(Route::Action(action.clone())) } else { Err(method_not_allowed()) };
    }
    let (needs, route) = match verb {
        "get" => (Verb::Get, Route::Get),
        "list" => (Verb::List, Route::List),
        "watch" => (Verb::Watch, Route::Watch),
        "create" if request.name.is_empty() && !whole => (Verb::Create, Route::Create),
        "update" if !request.name.is_empty() => (Verb::Update, Route::Update(Part::Main)),
        "patch" if !request.name.is_empty() => (Verb::Patch, Route::Patch(Part::Main)),
        "delete" => (Verb::Delete, Route::Delete),
        "deletecollection" if !whole => (Verb::DeleteCollection, Route::DeleteCollection),
        _ => return Err(method_not_allowed()),
    };
    if resource.verbs().contains(&needs) { Ok(route) } else { Err(method_not_allowed()) }
}
