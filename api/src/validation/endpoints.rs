//! Decoding of endpoints in the annotation, and their validation.

use machinery_validation::{FieldErrorKind, FieldPath, dns1123_label};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde_json::Value;

use super::{
    responders::{object, refuse_rest, required, take},
    text::Errors,
};
use crate::{CaBundle, HttpEndpoint, HttpsTrust, ServiceEndpoint};

/// Maximum size of a bundle of certificate authorities, in bytes: about eight of them. Each Evacuation has a
/// copy.
pub const MAX_CA_BUNDLE_BYTES: usize = 16 * 1024;

/// Maximum length of an endpoint's path, in bytes.
const MAX_PATH_LENGTH: usize = 1024;

pub(super) fn validate_http(errors: &mut Errors, path: &FieldPath, http: &HttpEndpoint) {
    validate_port(errors, path, http.port);
    validate_path(errors, &path.child("path"), http.path.as_deref());
}

pub(super) fn validate_service(errors: &mut Errors, path: &FieldPath, service: &ServiceEndpoint) {
    if service.name.is_empty() {
        errors.add(FieldErrorKind::Required, path.child("name"), "is required");
    } else if !dns1123_label(&service.name).is_empty() {
        // A name with a dot would be that of a Service of another namespace.
        errors.invalid(
            path.child("name"),
            format!(
                "{:?} is not the name of a Service of the pod's namespace, such as failover",
                service.name
            ),
        );
    }
    validate_port(errors, path, service.port);
    validate_path(errors, &path.child("path"), service.path.as_deref());
    if let Some(https) = &service.https {
        validate_bundle(errors, path.child("https").child("caBundle"), &https.ca_bundle);
    }
}

fn validate_port(errors: &mut Errors, path: &FieldPath, port: u16) {
    if port == 0 {
        errors.invalid(path.child("port"), "0 is not between 1 and 65535");
    }
}

fn validate_path(errors: &mut Errors, field: &FieldPath, path: Option<&str>) {
    let Some(text) = path else { return };
    if text.len() > MAX_PATH_LENGTH {
        errors.add(
            FieldErrorKind::TooLong,
            field.clone(),
            format!("must have at most {MAX_PATH_LENGTH} bytes"),
        );
    } else if !text.starts_with('/') || text.starts_with("//") {
        errors.invalid(field.clone(), format!("{text:?} does not start with one slash"));
    } else if text.bytes().any(|b| !b.is_ascii_graphic() || matches!(b, b'#' | b'\\')) {
        errors.invalid(field.clone(), "must be made of visible ASCII characters, without # and \\");
    }
}

/// Rejects everything but certificates: every reader of an Evacuation can read the bundle.
fn validate_bundle(errors: &mut Errors, field: FieldPath, bundle: &CaBundle) {
    if bundle.0.is_empty() {
        errors.add(FieldErrorKind::Required, field, "is required");
        return;
    }
    if bundle.0.len() > MAX_CA_BUNDLE_BYTES {
        errors.add(FieldErrorKind::TooLong, field, format!("must have at most {MAX_CA_BUNDLE_BYTES} bytes"));
        return;
    }
    let sections: Result<Vec<(SectionKind, Vec<u8>)>, _> =
        <(SectionKind, Vec<u8>)>::pem_slice_iter(&bundle.0).collect();
    match sections {
        Err(_) => errors.invalid(field, "holds PEM that cannot be read"),
        Ok(sections) if sections.is_empty() => errors.invalid(field, "holds no certificate in PEM"),
        Ok(sections) if sections.iter().any(|(kind, _)| *kind != SectionKind::Certificate) => {
            errors.invalid(field, "must hold certificates only");
        }
        Ok(_) => {}
    }
}

pub(super) fn read_http(errors: &mut Errors, path: &FieldPath, value: Value) -> Option<HttpEndpoint> {
    let mut fields = object(errors, path, value)?;
    let port = required(errors, path, &mut fields, "port", PORT);
    let text = take(errors, path, &mut fields, "path", "a string");
    let allow = take(errors, path, &mut fields, "allowHostNetwork", "true or false");
    refuse_rest(errors, path, fields);
    port.map(|port| HttpEndpoint { port, path: text, allow_host_network: allow })
}

pub(super) fn read_service(errors: &mut Errors, path: &FieldPath, value: Value) -> Option<ServiceEndpoint> {
    let mut fields = object(errors, path, value)?;
    let name = required(errors, path, &mut fields, "name", "a string");
    let port = required(errors, path, &mut fields, "port", PORT);
    let text = take(errors, path, &mut fields, "path", "a string");
    let trust = take::<Value>(errors, path, &mut fields, "https", "an object");
    let https = trust.map(|value| read_trust(errors, &path.child("https"), value));
    refuse_rest(errors, path, fields);
    Some(ServiceEndpoint {
        name: name?,
        port: port?,
        path: text,
        // Never without what was asked for: an endpoint whose trust is not understood is not spoken to in
        // plain text.
        https: https.map_or(Some(None), |trust| trust.map(Some))?,
    })
}

fn read_trust(errors: &mut Errors, path: &FieldPath, value: Value) -> Option<HttpsTrust> {
    let mut fields = object(errors, path, value)?;
    let expected = "certificates in PEM, in base64";
    let ca_bundle = required(errors, path, &mut fields, "caBundle", expected);
    refuse_rest(errors, path, fields);
    Some(HttpsTrust { ca_bundle: ca_bundle? })
}

/// Expected value of a port, for messages.
const PORT: &str = "a whole number between 1 and 65535";
