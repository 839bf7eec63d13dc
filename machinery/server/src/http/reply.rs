//! Replies.

use std::{
    io::Write,
    time::{Duration, SystemTime},
};

use actix_web::{
    HttpResponse, HttpResponseBuilder,
    http::{
        StatusCode,
        header::{self, HeaderName, HeaderValue, HttpDate},
    },
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::stream::LocalBoxStream;
use machinery_storage::StoreError;

use super::{encoding::Encoding, gzip_stream, render};
use crate::{
    ApiError, protobuf,
    status::{Target, status},
};

/// Minimum size of a reply that is compressed, as upstream.
const COMPRESSED_FROM: usize = 128 * 1024;
/// Maximum size of all warnings of a reply. More could exceed the limits of proxies.
const WARNINGS_SIZE: usize = 4 * 1024;
/// Maximum size of one warning.
const WARNING_SIZE: usize = 256;

/// Time for which clients may keep an immutable document.
const A_YEAR: Duration = Duration::from_hours(24 * 365);

/// The stream of a watch.
pub(crate) type Events = LocalBoxStream<'static, Result<Bytes, actix_web::Error>>;

/// A reply that is not a failure.
pub(crate) enum Reply {
    /// JSON, or a message that is protobuf already.
    Json(StatusCode, Bytes),
    /// A document that says what it is; an `immutable` one is at a path that contains its hash.
    Document { content_type: String, etag: Option<String>, immutable: bool, body: Bytes },
    /// The document is at another path: 301.
    Moved(String),
    /// Text.
    Text(StatusCode, String),
    /// Status 304: the client has the document already.
    NotModified(String),
    /// A watch, whose events are in that encoding. One that is a `list` too starts with the state.
    Watch { encoding: Encoding, list: bool, events: Events },
}

impl Reply {
    pub(crate) fn ok(body: Bytes) -> Self {
        Self::Json(StatusCode::OK, body)
    }

    /// Returns the code of the response.
    pub(crate) fn code(&self) -> StatusCode {
        match self {
            Self::Json(code, _) | Self::Text(code, _) => *code,
            Self::Document { .. } | Self::Watch { .. } => StatusCode::OK,
            Self::Moved(_) => StatusCode::MOVED_PERMANENTLY,
            Self::NotModified(_) => StatusCode::NOT_MODIFIED,
        }
    }

    /// Returns the response, compressed if the caller accepts `gzip`.
    pub(crate) async fn into_response(self, encoding: Encoding, gzip: bool) -> HttpResponse {
        match self {
            Self::Json(code, body) => encoded(HttpResponse::build(code), body, encoding, gzip).await,
            Self::Moved(location) => {
                HttpResponse::MovedPermanently().insert_header((header::LOCATION, location)).finish()
            }
            Self::Document { content_type, etag, immutable, body } => {
                let mut response = HttpResponse::Ok();
                response.insert_header((header::VARY, "Accept"));
                if let Some(etag) = etag {
                    response.insert_header((header::ETAG, etag));
                }
                if immutable {
                    response.insert_header((header::CACHE_CONTROL, "public, immutable"));
                    let expires = HttpDate::from(SystemTime::now() + A_YEAR);
                    response.insert_header((header::EXPIRES, expires.to_string()));
                }
                sized(response, &content_type, body, gzip).await
            }
            Self::Text(code, text) => {
                HttpResponse::build(code).content_type("text/plain; charset=utf-8").body(text)
            }
            Self::NotModified(etag) => {
                HttpResponse::NotModified().insert_header((header::ETAG, etag)).finish()
            }
            Self::Watch { encoding, list, events } => {
                let mut response = HttpResponse::Ok();
                response.content_type(encoding.stream_type());
                if !list || !gzip {
                    return response.streaming(events);
                }
                response
                    .insert_header((header::CONTENT_ENCODING, "gzip"))
                    .append_header((header::VARY, "Accept-Encoding"))
                    .streaming(gzip_stream::gzip(events))
            }
        }
    }
}

/// Encodes a JSON body; a large one on another thread.
async fn encoded(response: HttpResponseBuilder, body: Bytes, encoding: Encoding, gzip: bool) -> HttpResponse {
    if encoding == Encoding::Json || protobuf::is_message(&body) {
        return sized(response, encoding.media_type(), body, gzip).await;
    }
    if encoding == Encoding::Protobuf {
        // The result of a deletion is a Status; no other JSON is sent to a client that accepts metadata.
        return match serde_json::from_slice(&body) {
            Ok(status) => sized(response, encoding.media_type(), protobuf::status(&status), gzip).await,
            Err(_) => sized(response, Encoding::Json.media_type(), body, gzip).await,
        };
    }
    let encode = {
        let plain = body.clone();
        move || encoding.encode(&plain)
    };
    let result = if body.len() < COMPRESSED_FROM {
        encode()
    } else {
        tokio::task::spawn_blocking(encode).await.unwrap_or_else(|error| Err(error.into()))
    };
    match result {
        Ok(encoded) => sized(response, encoding.media_type(), encoded.into(), gzip).await,
        Err(source) => {
            failure(&ApiError::internal("encoding the reply", source), &Target::default(), encoding)
        }
    }
}

async fn sized(
    mut response: HttpResponseBuilder,
    content_type: &str,
    body: Bytes,
    gzip: bool,
) -> HttpResponse {
    response.content_type(content_type);
    if !gzip || body.len() < COMPRESSED_FROM {
        return response.body(body);
    }
    // Compression takes long enough to delay the other requests of this thread.
    let plain = body.clone();
    match tokio::task::spawn_blocking(move || compress(&plain)).await {
        Ok(Ok(compressed)) => response
            .insert_header((header::CONTENT_ENCODING, "gzip"))
            .append_header((header::VARY, "Accept-Encoding"))
            .body(compressed),
        _ => response.body(body),
    }
}

fn compress(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// The response of a failure: its `metav1.Status`.
pub(crate) fn failure(error: &ApiError, target: &Target, encoding: Encoding) -> HttpResponse {
    log(error, target);
    let status = status(error, target);
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(code);
    if let Some(seconds) = status.details.as_ref().and_then(|details| details.retry_after_seconds) {
        response.insert_header((header::RETRY_AFTER, seconds.to_string()));
    }
    if code == StatusCode::UNAUTHORIZED {
        response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if encoding == Encoding::Protobuf {
        return response.content_type(encoding.media_type()).body(protobuf::status(&status));
    }
    let json = render::json(&status).unwrap_or_default();
    match encoding.encode(&json) {
        Ok(encoded) => response.content_type(encoding.media_type()).body(encoded),
        Err(_) => response.content_type("application/json").body(json),
    }
}

/// Logs a failure: as an error when the fault is the server's, at `debug` when it is the caller's, who could
/// fill the log otherwise. Internal causes go only to the log.
fn log(error: &ApiError, target: &Target) {
    let (resource, name) = (target.qualified_resource(), &target.name);
    match error {
        ApiError::Store(StoreError::Unavailable { .. }) | ApiError::Internal { .. } => {
            let mut causes = Vec::new();
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                causes.push(cause.to_string());
                source = cause.source();
            }
            tracing::error!(resource, name, %error, causes = causes.join(": "), "request failed");
        }
        _ => tracing::debug!(resource, name, %error, "request rejected"),
    }
}

/// Adds `Warning` headers, as many as fit.
pub(crate) fn add_warnings(response: &mut HttpResponse, warnings: &[String]) {
    let mut left = WARNINGS_SIZE;
    for warning in warnings {
        let text = quoted(warning);
        if text.len() > left {
            return;
        }
        left -= text.len();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {text}")) {
            response.headers_mut().append(HeaderName::from_static("warning"), value);
        }
    }
}

/// A quoted string of RFC 9110 without control characters.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars().filter(|character| !character.is_control()) {
        if quoted.len() >= WARNING_SIZE {
            break;
        }
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_bounded() {
        let mut response = HttpResponse::Ok().finish();
        let long = "x".repeat(1000);
        let mut warnings = vec!["unknown field \"spec.x\"".to_owned(), "two\nlines".to_owned()];
        warnings.extend(vec![long; 100]);
        add_warnings(&mut response, &warnings);
        let headers: Vec<&str> =
            response.headers().get_all("warning").map(|value| value.to_str().expect("text")).collect();
        assert_eq!(headers[0], r#"299 - "unknown field \"spec.x\"""#);
        assert_eq!(headers[1], r#"299 - "twolines""#);
        assert!(headers.iter().map(|header| header.len()).sum::<usize>() < 2 * WARNINGS_SIZE);
    }
}
