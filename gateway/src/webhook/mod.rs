//! The webhooks over HTTP, each followed by the secret token, and the probes.
//!
//! `/evict` and `/delete` decide. `/warn` has a server of its own.

mod access;
pub(crate) mod review;
mod time;

use std::{sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    middleware::from_fn,
    web::{self, Bytes, Data, PayloadConfig, ServiceConfig},
};
use kube::core::{DynamicObject, admission::AdmissionReview};

use self::access::{admit, reject};
use self::review::{ReviewError, deletion, eviction, read, reply, warned, written};
use self::time::time_to_answer;
use crate::{gateway::Gateway, metrics::Metrics, warnings::warnings};

/// Maximum size of a review. It holds at most two objects of 1.5 MB each.
const MAX_BODY: usize = 8 << 20;

/// Adds the webhooks that decide, and the probes, to an actix `App`.
pub(crate) fn decisions(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .service(web::resource("/evict/{token}").wrap(from_fn(admit)).route(web::post().to(evict)))
            .service(web::resource("/delete/{token}").wrap(from_fn(admit)).route(web::post().to(delete)))
            .configure(only_with_token(gateway));
    }
}

/// Adds the webhook that warns, and the probes, to an actix `App`.
pub(crate) fn warnings_only(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .service(web::resource("/warn/{token}").wrap(from_fn(admit)).route(web::post().to(warn)))
            .configure(only_with_token(gateway));
    }
}

/// Adds what both servers have: the probes, the bound of a body, and the rejection of other paths.
fn only_with_token(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(gateway))
            .app_data(PayloadConfig::new(MAX_BODY))
            .configure(probes)
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
            .configure(probes);
    }
}

fn probes(config: &mut ServiceConfig) {
    config.route("/livez", web::get().to(live)).route("/readyz", web::get().to(ready));
}

async fn evict(gateway: Data<Gateway>, http: HttpRequest, body: Bytes) -> HttpResponse {
    answer_evict(&gateway, time_to_answer(http.query_string()), &body)
        .await
        .unwrap_or_else(|error| unreadable(&error))
}

async fn answer_evict(gateway: &Gateway, within: Duration, body: &[u8]) -> Result<HttpResponse, ReviewError> {
    let request = read::<DynamicObject>(body)?;
    let call = eviction(&request)?;
    let answer = gateway.answer_within(within, &call, None).await;
    Ok(respond(gateway, &reply(&request, &call, answer)))
}

async fn delete(gateway: Data<Gateway>, http: HttpRequest, body: Bytes) -> HttpResponse {
    answer_delete(&gateway, time_to_answer(http.query_string()), &body)
        .await
        .unwrap_or_else(|error| unreadable(&error))
}

async fn answer_delete(
    gateway: &Gateway,
    within: Duration,
    body: &[u8],
) -> Result<HttpResponse, ReviewError> {
    let request = read::<DynamicObject>(body)?;
    let (call, shown) = deletion(&request)?;
    let answer = gateway.answer_within(within, &call, Some(shown)).await;
    Ok(respond(gateway, &reply(&request, &call, answer)))
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
