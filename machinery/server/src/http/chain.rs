//! The one route: what happens to every request, in order.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderName, HeaderValue},
    web,
};
use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
use futures::FutureExt;
use machinery_auth::{AuthError, UserInfo, Verdict};
use uuid::Uuid;

use super::{
    dispatch,
    encoding::Encoding,
    exchange::Exchange,
    health, input, other,
    params::Params,
    reply::{self, Reply},
};
use crate::{ApiError, Reason, server::Core, status::Target};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// What time it is here: RFC 3339 in UTC with microseconds. `Date` has whole seconds only.
const SERVER_TIME: HeaderName = HeaderName::from_static("server-time");
/// Time of the last write that the store took, in the same form, or `never`.
const STORE_WRITTEN: HeaderName = HeaderName::from_static("store-written");
/// What the headers of impersonation start with.
const IMPERSONATION: &str = "impersonate-";
/// The group whose members are always served.
const ADMINISTRATORS: &str = "system:masters";

/// Serves one request.
pub(crate) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    core: web::Data<Core>,
) -> HttpResponse {
    let started = Instant::now();
    let params = match Params::parse(request.query_string()) {
        Ok(params) => params,
        Err(error) => {
            let response = reply::failure(&error, &Target::default(), Encoding::Json);
            return finish(&core, &request, response, &[]);
        }
    };
    let exchange = Exchange::new(&core, &request, params);
    let result = match timeout(&exchange) {
        Ok(timeout) => serve_within(timeout, &exchange, payload).await,
        Err(error) => Err(error),
    };
    let response = match result {
        Ok(reply) => {
            let gzip = exchange.header("accept-encoding").split(',').any(|coding| coding.trim() == "gzip");
            reply.into_response(exchange.encoding(), gzip).await
        }
        Err(error) => reply::failure(&error, &exchange.target(), exchange.encoding()),
    };
    let answer = response.status().as_u16();
    core.metrics.answered(&exchange.info, exchange.served(), answer, started);
    finish(&core, &request, response, &exchange.warnings())
}

/// Time that the request may take. As upstream, `timeout` does not concern watches: they have `timeoutSeconds`.
fn timeout(exchange: &Exchange<'_>) -> Result<Duration, ApiError> {
    let most = exchange.core.options.request_timeout;
    if exchange.info.is_watch() { Ok(most) } else { exchange.params.timeout(most) }
}

async fn serve_within(
    timeout: Duration,
    exchange: &Exchange<'_>,
    payload: web::Payload,
) -> Result<Reply, ApiError> {
    let served = tokio::time::timeout(timeout, serve(exchange, payload));
    match AssertUnwindSafe(served).catch_unwind().await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            let message = "Timeout: request did not complete within the allotted timeout";
            Err(ApiError::status(Reason::Timeout, message))
        }
        // The panic hook has logged the place and the cause.
        Err(_) => Err(ApiError::internal("serving the request", "a panic")),
    }
}

/// Adds the headers that every answer has.
fn finish(
    core: &Core,
    request: &HttpRequest,
    mut response: HttpResponse,
    warnings: &[String],
) -> HttpResponse {
    let given = request.headers().get(&AUDIT_ID).cloned();
    let audit_id = given.or_else(|| HeaderValue::from_str(&Uuid::new_v4().to_string()).ok());
    if let Some(audit_id) = audit_id {
        response.headers_mut().insert(AUDIT_ID, audit_id);
    }
    let time = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
    if let Ok(time) = HeaderValue::from_str(&time) {
        response.headers_mut().insert(SERVER_TIME, time);
    }
    let written = core.write_probe.as_ref().and_then(|probe| HeaderValue::from_str(&probe.last()).ok());
    if let Some(written) = written {
        response.headers_mut().insert(STORE_WRITTEN, written);
    }
    if !response.headers().contains_key(header::CACHE_CONTROL) {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    reply::add_warnings(&mut response, warnings);
    response
}

async fn serve(exchange: &Exchange<'_>, payload: web::Payload) -> Result<Reply, ApiError> {
    let info = &exchange.info;
    // Probes carry no credentials, and must be answered when those who know users cannot be asked.
    if let Some((probe, check)) = health::probe(&info.path).filter(|_| info.is_read()) {
        return health::report(probe, check, &exchange.core.checks(probe).await, &exchange.params);
    }
    let user = authenticate(exchange).await?;
    refuse_impersonation(exchange, &user)?;
    let privileged = user.groups.iter().any(|group| group == ADMINISTRATORS);
    let core = exchange.core;
    let enter = || core.in_flight.enter(info.is_read(), privileged, &core.metrics);
    let mut _place = if info.is_watch() { None } else { Some(enter()?) };
    authorize(exchange, &user).await?;
    let mut body = Bytes::new();
    if !info.is_read() {
        // Without a place: who sends slowly must not keep others from being served.
        _place = None;
        body = input::read(payload, dispatch::body_limit(exchange), core.options.body_timeout).await?;
        _place = Some(enter()?);
    }
    if info.resource.is_some() {
        dispatch::resource(exchange, user, privileged, body).await
    } else {
        other::path(exchange)
    }
}

async fn authenticate(exchange: &Exchange<'_>) -> Result<UserInfo, ApiError> {
    let found = exchange.core.authenticator.authenticate(&exchange.headers(), exchange.peer()).await;
    match found {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(ApiError::status(Reason::Unauthorized, "Unauthorized")),
        Err(error @ AuthError::InvalidCredentials { .. }) => {
            tracing::info!(%error, "credentials were not accepted");
            Err(ApiError::status(Reason::Unauthorized, "Unauthorized"))
        }
        Err(error) => Err(unavailable(&error)),
    }
}

/// Refuses who wants to act as another: that is for the kube-apiserver to grant, which takes these headers out of what it proxies. To ignore
/// them would be to act as who the caller did not mean.
fn refuse_impersonation(exchange: &Exchange<'_>, user: &UserInfo) -> Result<(), ApiError> {
    let mut names = exchange.request.headers().keys();
    let Some(header) = names.find(|name| name.as_str().starts_with(IMPERSONATION)) else {
        return Ok(());
    };
    let message = format!(
        "User {:?} cannot impersonate here ({header}): impersonation is served by the kube-apiserver only",
        user.name
    );
    Err(ApiError::status(Reason::Forbidden, message))
}

async fn authorize(exchange: &Exchange<'_>, user: &UserInfo) -> Result<(), ApiError> {
    let attributes = exchange.info.attributes(user.clone());
    let reason = match exchange.core.authorizer.authorize(&attributes).await {
        Ok(Verdict::Allowed) => return Ok(()),
        Ok(Verdict::Denied { reason }) => reason,
        Err(error) => return Err(unavailable(&error)),
    };
    let mut message = match &attributes.resource {
        None => format!("forbidden: {}", attributes.forbidden_message()),
        Some(resource) => {
            let what = Target {
                group: resource.group.clone(),
                resource: resource.resource.clone(),
                ..Target::default()
            };
            let what = what.qualified_resource();
            let name = if resource.name.is_empty() { String::new() } else { format!(" {:?}", resource.name) };
            format!("{what}{name} is forbidden: {}", attributes.forbidden_message())
        }
    };
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    Err(ApiError::status(Reason::Forbidden, message))
}

/// Who asks, or whether they may, cannot be found out now. Nobody is let in, and nobody is told that they may not.
fn unavailable(error: &AuthError) -> ApiError {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, source, "a request cannot be authenticated or authorised");
    let message = format!("the server is currently unable to handle the request: {error}");
    ApiError::status(Reason::ServiceUnavailable, message).retry_after(1)
}
