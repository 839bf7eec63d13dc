//! Admission of requests: only those with the secret token in their path, and with a token of the
//! kube-apiserver where the gateway requires one, are read.

use actix_web::{
    HttpMessage, HttpResponse,
    body::{EitherBody, MessageBody},
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::{StatusCode, header::AUTHORIZATION},
    middleware::Next,
    web::{self, Data},
};

use super::unread::unread;
use crate::{gateway::Gateway, metrics::Metrics};

/// Serves a request whose path has the secret token, and rejects others unread.
pub(super) async fn admit(
    mut request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<EitherBody<impl MessageBody>>, actix_web::Error> {
    let token = request.match_info().get("token").unwrap_or_default();
    let Some(gateway) = request.app_data::<Data<Gateway>>().cloned() else {
        return Ok(request.into_response(HttpResponse::Forbidden().finish()).map_into_right_body());
    };
    if !gateway.tokens.proves(token) {
        let rejected = rejection(&gateway.metrics, 403, request.take_payload());
        return Ok(request.into_response(rejected).map_into_right_body());
    }
    if let Some(attestations) = &gateway.attestations {
        let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Err(error) = attestations.check(request.path(), authorization).await {
            let path = request.match_pattern().unwrap_or_default();
            tracing::warn!(error = &error as &dyn std::error::Error, path, "a call was rejected");
            let rejected = rejection(&gateway.metrics, error.code(), request.take_payload());
            return Ok(request.into_response(rejected).map_into_right_body());
        }
    }
    Ok(next.call(request).await?.map_into_left_body())
}

/// Rejects a request to any other path.
pub(super) async fn reject(gateway: Data<Gateway>, rest: web::Payload) -> HttpResponse {
    rejection(&gateway.metrics, 403, rest.into_inner())
}

/// Closes the connection, and does not read the rest of the request.
fn rejection(metrics: &Metrics, code: u16, rest: Payload) -> HttpResponse {
    metrics.calls_rejected.inc();
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::FORBIDDEN);
    let answer =
        HttpResponse::build(code).force_close().body("only the kube-apiserver may call the gateway\n");
    answer.map_body(|_, body| unread(body, rest))
}
