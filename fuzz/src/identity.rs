//! Identity of callers.

use std::str::from_utf8;

use machinery_auth::fuzzing;

use crate::halves;

/// The user of a certificate, in DER.
pub(crate) fn certificate_user(input: &[u8]) {
    fuzzing::certificate_user(input);
}

/// The name of an extra's header, a line break, and its value.
pub(crate) fn front_proxy_headers(input: &[u8]) {
    let (name, value) = halves(input);
    let key = from_utf8(value).unwrap_or_default();
    from_utf8(name).map(|name| fuzzing::front_proxy_extra(name, value, key)).unwrap_or_default();
}
