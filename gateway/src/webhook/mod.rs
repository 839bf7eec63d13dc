//! The webhooks over HTTP, each followed by the secret token, and the metrics and probes on a port of their
//! own.
//!
//! `/evict` and `/delete` decide. `/warn` has a server of its own.

mod access;
mod body;
pub(crate) mod review;
mod reviewed;
mod time;
mod unread;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    HttpRequest, HttpResponse,
    middleware::from_fn,
    web::{self, Bytes, Data, Payload, PayloadConfig, ServiceConfig},
};
use evacuation_api::{GATEWAY_ANSWERS, GATEWAY_STARTS, GATEWAY_TRIAL_POD};
use kube::core::{DynamicObject, admission::AdmissionReview};

use self::access::{admit, reject};
use self::body::{Body, MAX_BODY, read_body};
use self::review::{ReviewError, deletion, eviction, read, reply, too_long, warned, written};
use self::time::time_to_answer;
pub(crate) use self::{reviewed::Reviewed, unread::without_body};
use crate::{gateway::Gateway, metrics::Metrics, warnings::warnings};

/// Adds the webhooks that decide to an actix `App`.
pub(crate) fn decisions(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .service(web::resource("/evict/{token}").wrap(from_fn(admit)).route(web::post().to(evict)))
            .service(web::resource("/delete/{token}").wrap(from_fn(admit)).route(web::post().to(delete)))
            .configure(only_with_token(gateway));
    }
}

/// Adds the webhook that warns to an actix `App`.
pub(crate) fn warnings_only(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .service(web::resource("/warn/{token}").wrap(from_fn(admit)).route(web::post().to(warn)))
            .configure(only_with_token(gateway));
    }
}

/// Adds what both servers have: the bound of a body, and the rejection of other paths, which closes the
/// connection. A connection that is kept open without a token would have no bound of time.
fn only_with_token(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(gateway))
            .app_data(PayloadConfig::new(MAX_BODY))
            .default_service(web::to(reject));
    }
}

/// Adds the metrics and the probes to an actix `App`.
pub(crate) fn observed(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(Arc::clone(&gateway.metrics)))
            .app_data(Data::from(gateway))
            .route("/metrics", web::get().to(metrics))
            .route("/livez", web::get().to(live))
            .route("/readyz", web::get().to(ready));
    }
}

async fn evict(gateway: Data<Gateway>, http: HttpRequest, body: Payload) -> HttpResponse {
    let until = Instant::now() + time_to_answer(http.query_string());
    let answer = async |body: Bytes| answer_evict(&gateway, until, body).await;
    answer_body(&gateway, "evict", body, answer).await
}

async fn answer_evict(gateway: &Gateway, until: Instant, body: Bytes) -> Result<HttpResponse, ReviewError> {
    let request = read::<Reviewed>(&body)?;
    // Calls wait for long, and their bodies are large.
    drop(body);
    let call = eviction(&request)?;
    if call.dry_run && call.pod == GATEWAY_TRIAL_POD {
        let said = if gateway.cluster.not_synced().is_empty() { GATEWAY_ANSWERS } else { GATEWAY_STARTS };
        return Ok(respond(gateway, &warned(&request, vec![said.to_owned()])));
    }
    let within = until.saturating_duration_since(Instant::now());
    let answer = gateway.answer_within(within, &call, None).await;
    Ok(respond(gateway, &reply(&request, &call, answer)))
}

async fn delete(gateway: Data<Gateway>, http: HttpRequest, body: Payload) -> HttpResponse {
    let until = Instant::now() + time_to_answer(http.query_string());
    let answer = async |body: Bytes| answer_delete(&gateway, until, body).await;
    answer_body(&gateway, "delete", body, answer).await
}

async fn answer_delete(gateway: &Gateway, until: Instant, body: Bytes) -> Result<HttpResponse, ReviewError> {
    let request = read::<Reviewed>(&body)?;
    // Calls wait for long, and their bodies are large.
    drop(body);
    let (call, shown) = deletion(&request)?;
    let within = until.saturating_duration_since(Instant::now());
    let answer = gateway.answer_within(within, &call, Some(shown)).await;
    Ok(respond(gateway, &reply(&request, &call, answer)))
}

/// Answers a review that decides. One that is too long is denied: with an error the call would pass, and the
/// caller chooses the size of an Eviction.
async fn answer_body(
    gateway: &Gateway,
    webhook: &'static str,
    body: Payload,
    answer: impl AsyncFnOnce(Bytes) -> Result<HttpResponse, ReviewError>,
) -> HttpResponse {
    match read_body(body).await {
        Ok(Body::Whole(body)) => answer(body).await.unwrap_or_else(|error| unreadable(&error)),
        Ok(Body::TooLong { uid }) => {
            tracing::warn!("{webhook}: a review of over {MAX_BODY} bytes was denied");
            gateway.metrics.count(webhook, "unread", "too_long", Duration::ZERO);
            respond(gateway, &too_long(uid))
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "{webhook}: a review was not read");
            HttpResponse::BadRequest().force_close().body(error.to_string())
        }
    }
}

async fn warn(gateway: Data<Gateway>, body: Bytes) -> HttpResponse {
    answer_warn(&gateway, &body).unwrap_or_else(|error| unreadable(&error))
}

/// Allows a creation or an update always, and warns of its annotations.
fn answer_warn(gateway: &Gateway, body: &[u8]) -> Result<HttpResponse, ReviewError> {
    let request = read::<DynamicObject>(body)?;
    let found = match written(&request)? {
        Some(object) => {
            let namespace = request.namespace.as_deref().unwrap_or_default();
            warnings(&object, |responder| gateway.cluster.is_served(namespace, responder))
        }
        None => Vec::new(),
    };
    Ok(respond(gateway, &warned(&request, found)))
}

fn respond(gateway: &Gateway, review: &AdmissionReview<DynamicObject>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    if gateway.is_closing() {
        response.force_close();
    }
    response.json(review)
}

/// The kube-apiserver lets a call pass whose review is not answered.
fn unreadable(error: &ReviewError) -> HttpResponse {
    tracing::warn!(error = error as &dyn std::error::Error, "a review was not understood");
    HttpResponse::BadRequest().body(error.to_string())
}

async fn metrics(metrics: Data<Metrics>) -> HttpResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    HttpResponse::Ok().content_type(kind).body(metrics.text())
}

async fn live() -> &'static str {
    "ok\n"
}

async fn ready(gateway: Data<Gateway>) -> HttpResponse {
    if gateway.is_closing() {
        return HttpResponse::ServiceUnavailable().body("not ready: shutting down\n");
    }
    match gateway.cluster.not_synced().as_slice() {
        [] if !gateway.tokens.is_known() => {
            HttpResponse::ServiceUnavailable().body("not ready: token of the webhooks' paths\n")
        }
        [] => HttpResponse::Ok().body("ok\n"),
        missing => HttpResponse::ServiceUnavailable().body(format!("not ready: {}\n", missing.join(", "))),
    }
}
