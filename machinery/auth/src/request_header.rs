//! Callers that the front proxy (kube-apiserver's aggregation layer) names.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::{AuthError, Authenticator, CurrentConfig, RequestHeaderConfig, UserInfo, subject};

const PROXY_CERTIFICATE: &str = "front-proxy certificate";
const HEADERS: &str = "front-proxy header";

/// Authenticates callers by the headers of the front proxy.
///
/// The headers are read only when the peer's certificate leads to the request-header CA and has one of the
/// allowed common names. The headers of any other client are ignored.
pub struct RequestHeaderAuthenticator {
    config: Arc<CurrentConfig>,
}

impl RequestHeaderAuthenticator {
    /// Applies to each request the settings in force when it arrives.
    pub fn new(config: Arc<CurrentConfig>) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Authenticator for RequestHeaderAuthenticator {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let config = self.config.load();
        let (Some(config), Some(certificate)) = (&config.request_header, peer.first()) else {
            return Ok(None);
        };
        config
            .ca
            .verify(peer, UnixTime::now())
            .map_err(|error| AuthError::invalid(PROXY_CERTIFICATE, error.to_string()))?;
        check_name(config, certificate)?;
        user(config, headers)
    }
}

fn check_name(config: &RequestHeaderConfig, certificate: &CertificateDer<'_>) -> Result<(), AuthError> {
    if config.allowed_names.is_empty() {
        return Ok(());
    }
    let name = subject::common_name(certificate)
        .map_err(|error| AuthError::invalid(PROXY_CERTIFICATE, error.to_string()))?
        .unwrap_or_default();
    if config.allowed_names.contains(&name) {
        return Ok(());
    }
    Err(AuthError::invalid(
        PROXY_CERTIFICATE,
        format!("its common name {name:?} is not among the allowed ones"),
    ))
}

fn user(config: &RequestHeaderConfig, headers: &HeaderMap) -> Result<Option<UserInfo>, AuthError> {
    let Some(name) = first(headers, &config.username_headers)? else {
        return Ok(None);
    };
    let mut groups = Vec::new();
    for value in config.group_headers.iter().flat_map(|header| headers.get_all(header)) {
        let group = text(value)?;
        if !group.is_empty() {
            groups.push(group);
        }
    }
    let uid = first(headers, &config.uid_headers)?;
    Ok(Some(UserInfo { name, uid, groups, extra: extra(headers, &config.extra_prefixes)? }))
}

/// Returns the first value of the first header that has one that is not empty. Further values are ignored, as
/// upstream does: a proxy sets the header, and must have removed the client's own.
fn first(headers: &HeaderMap, names: &[HeaderName]) -> Result<Option<String>, AuthError> {
    let mut values = names.iter().filter_map(|name| headers.get(name));
    values.find(|value| !value.is_empty()).map(text).transpose()
}

pub(crate) fn extra(
    headers: &HeaderMap,
    prefixes: &[String],
) -> Result<BTreeMap<String, Vec<String>>, AuthError> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in prefixes {
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(prefix.as_str()) {
                extra.entry(extra_key(key)).or_default().push(text(value)?);
            }
        }
    }
    Ok(extra)
}

/// Decodes a key that was encoded for a header name. Header names have no case, so neither have keys. A key
/// that is not encoded properly is kept as received, as upstream does.
pub(crate) fn extra_key(encoded: &str) -> String {
    let mut escapes = encoded.split('%').skip(1).map(|rest| rest.as_bytes().get(..2));
    let well_formed =
        escapes.all(|digits| digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    match percent_decode_str(encoded).decode_utf8() {
        Ok(key) if well_formed => key.to_lowercase(),
        _ => encoded.to_lowercase(),
    }
}

fn text(value: &HeaderValue) -> Result<String, AuthError> {
    String::from_utf8(value.as_bytes().to_vec()).map_err(|_| AuthError::invalid(HEADERS, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_keys_are_decoded_and_lower_case() {
        let cases = [
            ("authentication.kubernetes.io%2fpod-name", "authentication.kubernetes.io/pod-name"),
            ("Authentication.kubernetes.io%2FPod-Name", "authentication.kubernetes.io/pod-name"),
            ("plain", "plain"),
            ("%50lain", "plain"),
            ("%c3%a9", "é"),
            ("half%2fgood%zz", "half%2fgood%zz"),
            ("cut%2", "cut%2"),
            ("no-utf8%ff", "no-utf8%ff"),
            ("", ""),
        ];
        for (encoded, key) in cases {
            assert_eq!(extra_key(encoded), key, "{encoded}");
        }
    }
}
