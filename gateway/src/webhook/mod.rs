//! The webhooks over HTTP: `/evict`, `/delete` and `/pods`, and the probes.

pub(crate) mod review;

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{self, Bytes, Data, PayloadConfig, ServiceConfig},
};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DynamicObject, admission::AdmissionReview};

use self::review::{ReviewError, deletion, eviction, read, reply, warned, written};
use crate::{gateway::Gateway, metrics::Metrics, warnings::warnings};

/// Maximum size of a review. It holds at most two objects of 1.5 MB each.
const MAX_BODY: usize = 8 << 20;

/// Adds the webhooks and the probes to an actix `App`.
pub(crate) fn webhooks(gateway: Arc<Gateway>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(Data::from(gateway))
            .app_data(PayloadConfig::new(MAX_BODY))
            .route("/evict", web::post().to(evict))
            .route("/delete", web::post().to(delete))
            .route("/pods", web::post().to(warn))
            .configure(probes);
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

async fn evict(gateway: Data<Gateway>, body: Bytes) -> HttpResponse {
    answer_evict(&gateway, &body).await.unwrap_or_else(|error| unreadable(&error))
}

async fn answer_evict(gateway: &Gateway, body: &[u8]) -> Result<HttpResponse, ReviewError> {
    let request = read::<DynamicObject>(body)?;
    let call = eviction(&request)?;
    let answer = gateway.answer(&call, None).await;
    Ok(respond(gateway, &reply(&request, &call, answer)))
}

async fn delete(gateway: Data<Gateway>, body: Bytes) -> HttpResponse {
    answer_delete(&gateway, &body).await.unwrap_or_else(|error| unreadable(&error))
}

async fn answer_delete(gateway: &Gateway, body: &[u8]) -> Result<HttpResponse, ReviewError> {
    let request = read::<Pod>(body)?;
    let (call, pod) = deletion(&request)?;
    let answer = gateway.answer(&call, Some(pod)).await;
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
        [] => HttpResponse::Ok().body("ok\n"),
        missing => HttpResponse::ServiceUnavailable().body(format!("not ready: {}\n", missing.join(", "))),
    }
}
