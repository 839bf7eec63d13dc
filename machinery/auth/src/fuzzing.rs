//! Entrances for a fuzzer: private parsers of what clients send. No part of the API.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::CertificateDer;

use crate::{request_header, subject};

const PREFIX: &str = "x-remote-extra-";

/// Reads an extra of the front proxy's headers. An encoded key comes back in lower case, and no value is
/// lost.
pub fn front_proxy_extra(name: &str, value: &[u8], key: &str) {
    let encoded = utf8_percent_encode(key, NON_ALPHANUMERIC).to_string();
    assert_eq!(request_header::extra_key(&encoded), key.to_lowercase());
    let name = HeaderName::from_bytes(format!("{PREFIX}{name}").as_bytes());
    let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) else { return };
    let headers: HeaderMap = [(name.clone(), value.clone()), (name, value)].into_iter().collect();
    let Ok(extra) = request_header::extra(&headers, &[PREFIX.to_owned()]) else { return };
    assert_eq!(extra.values().map(Vec::len).sum::<usize>(), headers.len());
}

/// Reads the user of a client's certificate. One with a name has the same common name.
pub fn certificate_user(der: &[u8]) {
    let certificate = CertificateDer::from(der.to_vec());
    if let Ok(Some(user)) = subject::user(&certificate) {
        assert_eq!(subject::common_name(&certificate).ok().flatten(), Some(user.name));
    }
}
