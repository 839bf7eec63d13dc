//! The one route: what happens to every request, in order.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant, SystemTime},
};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderName, HeaderValue},
    web,
};
use bytes::Bytes;
use chrono::{SecondsFormat, Utc};
use futures::FutureExt;
use machinery_auth::{Attributes, AuthError, Decision, UserInfo, Verdict};
use machinery_tracing::Span;
use uuid::Uuid;

use super::{
    caller::Caller,
    dispatch,
    encoding::Encoding,
    exchange::Exchange,
    health, input, other,
    params::Params,
    reply::{self, Reply},
    reply_body::ReplyBody,
    request_labels::request_labels,
    spans,
    trail::Trail,
    websocket,
};
use crate::{
    ApiError, Reason,
    server::{Core, WriteProbe},
    status::Target,
};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Server time: RFC 3339 in UTC with microseconds. `Date` has whole seconds only.
const SERVER_TIME: HeaderName = HeaderName::from_static("server-time");
/// Time of the last write that the store took, in the same form, or `never`.
const STORE_WRITTEN: HeaderName = HeaderName::from_static("store-written");
/// Time at which the store took writes again after a time in which it took none; absent when it always did.
const STORE_RECOVERED: HeaderName = HeaderName::from_static("store-recovered");
/// Prefix of the headers of impersonation.
const IMPERSONATION: &str = "impersonate-";

/// Serves one request.
pub(crate) async fn handle(
    request: HttpRequest,
    payload: web::Payload,
    core: web::Data<Core>,
) -> HttpResponse {
    let started = Instant::now();
    let audit_id = audit_id(&request);
    let params = match Params::parse(request.query_string()) {
        Ok(params) => params,
        Err(error) => {
            let response = reply::failure(&error, &Target::default(), Encoding::Json);
            return finish(&core, &audit_id, response, &[]);
        }
    };
    let exchange = Exchange::new(&core, &request, params, payload, audit_id);
    let result = match timeout(&exchange) {
        Ok(timeout) => {
            exchange.set_timeout(timeout);
            serve_within(timeout, &exchange).await
        }
        Err(error) => Err(error),
    };
    // Before the audit event: the handshake of a WebSocket can fail.
    let result = result.and_then(|reply| websocket(&exchange, reply));
    exchange.note(|trail| match &result {
        Ok(Upgraded::WebSocket(response)) => trail.upgraded(response.status().as_u16()),
        Ok(Upgraded::No(reply)) => trail.reply(Ok(reply), &exchange),
        Err(error) => trail.reply(Err(error), &exchange),
    });
    let response = match result {
        Ok(Upgraded::WebSocket(response)) => response,
        Ok(Upgraded::No(reply)) => {
            let gzip = exchange.header("accept-encoding").split(',').any(|coding| coding.trim() == "gzip");
            reply.into_response(exchange.encoding(), gzip).await
        }
        Err(error) => reply::failure(&error, &exchange.target(), exchange.failure_encoding()),
    };
    let answer = response.status().as_u16();
    let span = exchange.span();
    if let Some(span) = &span {
        spans::answered(span, answer);
    }
    core.metrics.answered(request_labels(&exchange), answer, started);
    let mut trail = exchange.take_trail();
    if let Some(trail) = &mut trail {
        trail.finish().await;
    }
    let slot = exchange.take_slot();
    let response = response.map_body(|_, body| ReplyBody::new(body, slot, trail, span)).map_into_boxed_body();
    let mut warnings = exchange.warnings();
    if exchange.info.resource.is_some() && exchange.is_authenticated() {
        warnings.extend(core.standing_warning.as_ref().and_then(|warning| warning()));
    }
    finish(&core, &exchange.audit_id, response, &warnings)
}

/// Returns the identifier of the request in the audit logs: that of the kube-apiserver or of the
/// client, or else a new one.
fn audit_id(request: &HttpRequest) -> String {
    let given = request.headers().get(&AUDIT_ID).and_then(|value| value.to_str().ok());
    given.filter(|id| !id.is_empty()).map_or_else(|| Uuid::new_v4().to_string(), ToOwned::to_owned)
}

/// Reply after the choice of the protocol.
enum Upgraded {
    /// The connection becomes a WebSocket.
    WebSocket(HttpResponse),
    /// The reply is sent as HTTP.
    No(Reply),
}

/// Sends a watch over a WebSocket if the client asks for one. As upstream, no other reply is.
fn websocket(exchange: &Exchange<'_>, reply: Reply) -> Result<Upgraded, ApiError> {
    match (reply, exchange.is_websocket().then(|| exchange.take_payload()).flatten()) {
        (Reply::Watch { encoding, events, .. }, Some(payload)) => {
            websocket::upgrade(exchange.request, payload, encoding, events).map(Upgraded::WebSocket)
        }
        (reply, _) => Ok(Upgraded::No(reply)),
    }
}

/// Time that the request may take. As upstream, `timeout` does not concern watches: they have
/// `timeoutSeconds`.
fn timeout(exchange: &Exchange<'_>) -> Result<Duration, ApiError> {
    let most = exchange.core.options.request_timeout;
    if exchange.info.is_watch() { Ok(most) } else { exchange.params.timeout(most) }
}

async fn serve_within(timeout: Duration, exchange: &Exchange<'_>) -> Result<Reply, ApiError> {
    let served = tokio::time::timeout(timeout, serve(exchange));
    match AssertUnwindSafe(served).catch_unwind().await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => {
            let message = "Timeout: request did not complete within the allotted timeout";
            Err(ApiError::status(Reason::Timeout, message))
        }
        // The panic hook has logged the place and the cause.
        Err(_) => {
            exchange.note(Trail::panicked);
            Err(ApiError::internal("serving the request", "a panic"))
        }
    }
}

/// Adds the headers that every answer has.
fn finish(core: &Core, audit_id: &str, mut response: HttpResponse, warnings: &[String]) -> HttpResponse {
    if let Ok(audit_id) = HeaderValue::from_str(audit_id) {
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
    let recovered = core.write_probe.as_ref().and_then(WriteProbe::recovered);
    if let Some(recovered) = recovered.and_then(|time| HeaderValue::from_str(&time).ok()) {
        response.headers_mut().insert(STORE_RECOVERED, recovered);
    }
    if !response.headers().contains_key(header::CACHE_CONTROL) {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    reply::add_warnings(&mut response, warnings);
    response
}

async fn serve(exchange: &Exchange<'_>) -> Result<Reply, ApiError> {
    let info = &exchange.info;
    // Probes carry no credentials, and must be answered when those who know users cannot be asked.
    if let Some((probe, check)) = health::probe(&info.path).filter(|_| info.is_read()) {
        exchange.audit(Some(&UserInfo::anonymous())).await?;
        return health::report(probe, check, &exchange.core.checks(probe).await, &exchange.params);
    }
    let user = match authenticate(exchange).await {
        Ok(user) => user,
        Err(error) => {
            exchange.audit(None).await?;
            return Err(error);
        }
    };
    exchange.authenticated();
    exchange.trace(&user);
    let rest = serve_user(exchange, user);
    match exchange.span() {
        Some(span) => {
            span.part("authentication", exchange.received.into(), SystemTime::now());
            span.run(rest).await
        }
        None => rest.await,
    }
}

/// Serves the request of a user.
async fn serve_user(exchange: &Exchange<'_>, user: UserInfo) -> Result<Reply, ApiError> {
    let info = &exchange.info;
    exchange.audit(Some(&user)).await?;
    refuse_impersonation(exchange, &user)?;
    let core = exchange.core;
    let caller = Caller::new(&user, &core.options.priority_users);
    let of_view = exchange.served().is_some_and(|served| served.resource.is_view());
    let enter = || {
        let slot = core.limiters.request(&caller, info.is_read(), of_view, exchange.patience());
        Span::run_part("priorityandfairness", slot)
    };
    exchange.keep(enter().await?);
    Span::run_part("authorization", authorize_request(exchange, &user)).await?;
    let (mut body, mut _memory) = (Bytes::new(), None);
    if !info.is_read() {
        // Without a slot: a client that sends slowly must not keep others from being served.
        drop(exchange.take_slot());
        let limit = dispatch::body_limit(exchange);
        _memory = Some(core.limiters.body(&caller, exchange.body_size(limit))?);
        if let Some(payload) = exchange.take_payload() {
            body = input::read(payload, limit, core.options.body_timeout).await?;
        }
        if let Some(syntax) = input::body_syntax(exchange) {
            exchange.note(|trail| trail.request(&info.verb, syntax, &body));
        }
        exchange.keep(enter().await?);
    }
    if info.resource.is_some() {
        let handled = dispatch::resource(exchange, user, &caller, body);
        let reply = Span::run_part(spans::handler(&info.verb), handled).await;
        if info.is_watch() {
            // Its start used the slot, as a list does. From now on it has a limit of its own.
            drop(exchange.take_slot());
        }
        reply
    } else {
        other::path(exchange)
    }
}

async fn authenticate(exchange: &Exchange<'_>) -> Result<UserInfo, ApiError> {
    // kube-apiserver passes no token on to aggregated servers: a caller that brings one comes directly.
    let headers = exchange.headers()?;
    let _review = if headers.get("authorization").is_none_or(::http::HeaderValue::is_empty) {
        None
    } else {
        Some(exchange.core.limiters.token_review(&exchange.address(), exchange.patience()).await?)
    };
    let found = exchange.core.authenticator.authenticate(&headers, exchange.peer()).await;
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

/// Rejects impersonation. kube-apiserver grants it, and removes these headers from requests that it proxies.
/// Ignoring the headers would run the request as the wrong user.
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

/// Checks that the caller may make the request, and records the decision in the audit events. Source of the
/// names: `k8s.io/apiserver/pkg/endpoints/filters/authorization.go`.
async fn authorize_request(exchange: &Exchange<'_>, user: &UserInfo) -> Result<(), ApiError> {
    let attributes = exchange.info.attributes(user.clone());
    let annotate = |decision: Option<&str>, reason: &str| {
        if exchange.core.auditor.is_none() {
            return;
        }
        if let Some(decision) = decision {
            exchange.annotations.add("authorization.k8s.io/decision", decision);
        }
        exchange.annotations.add("authorization.k8s.io/reason", reason);
    };
    match exchange.core.authorizer.decide(&attributes).await {
        Ok(Decision { verdict: Verdict::Allowed, reason }) => {
            annotate(Some("allow"), &reason);
            Ok(())
        }
        Ok(Decision { reason, .. }) => {
            annotate(Some("forbid"), &reason);
            Err(forbidden(&attributes, &reason))
        }
        Err(error) => {
            annotate(None, "internal error");
            Err(unavailable(&error))
        }
    }
}

/// Checks that a caller has a right.
pub(crate) async fn authorize(exchange: &Exchange<'_>, attributes: &Attributes) -> Result<(), ApiError> {
    match exchange.core.authorizer.authorize(attributes).await {
        Ok(Verdict::Allowed) => Ok(()),
        Ok(Verdict::Denied { reason }) => Err(forbidden(attributes, &reason)),
        Err(error) => Err(unavailable(&error)),
    }
}

/// Returns the failure of a caller without the right to `attributes`.
fn forbidden(attributes: &Attributes, reason: &str) -> ApiError {
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
    ApiError::status(Reason::Forbidden, message)
}

/// Returns the failure of a request that cannot be authenticated or authorised now. It neither admits nor
/// denies.
fn unavailable(error: &AuthError) -> ApiError {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, source, "request cannot be authenticated or authorised");
    let message = format!("the server is currently unable to handle the request: {error}");
    ApiError::status(Reason::ServiceUnavailable, message).retry_after(1)
}
