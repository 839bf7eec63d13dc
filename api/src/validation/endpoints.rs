//! Decoding of endpoints in the annotation, and their validation.

use machinery_validation::{FieldErrorKind, FieldPath, dns1123_label};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde_json::Value;

use super::{
    object_reader::{ObjectReader, Problems},
    text::Errors,
};
use crate::{CaBundle, HttpEndpoint, HttpsTrust, Json, ServiceEndpoint};

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

pub(super) fn read_http(problems: &mut Problems, path: &FieldPath, value: &Json) -> Option<HttpEndpoint> {
    let mut fields = ObjectReader::new(problems, path, value)?;
    let port = fields.required("port", ObjectReader::port);
    let text = fields.text("path");
    let allow = fields.truth("allowHostNetwork");
    fields.refuse_rest();
    port.map(|port| HttpEndpoint { port, path: text, allow_host_network: allow })
}

pub(super) fn read_service(
    problems: &mut Problems,
    path: &FieldPath,
    value: &Json,
) -> Option<ServiceEndpoint> {
    let mut fields = ObjectReader::new(problems, path, value)?;
    let name = fields.required("name", ObjectReader::text);
    let port = fields.required("port", ObjectReader::port);
    let text = fields.text("path");
    let https = fields.object("https", read_trust);
    fields.refuse_rest();
    Some(ServiceEndpoint {
        name: name?,
        port: port?,
        path: text,
        // Never without what was asked for: an endpoint whose trust is not understood is not spoken to in
        // plain text.
        https: https.ok()?,
    })
}

fn read_trust(problems: &mut Problems, path: &FieldPath, value: &Json) -> Option<HttpsTrust> {
    let mut fields = ObjectReader::new(problems, path, value)?;
    let ca_bundle = fields.required("caBundle", |fields, field| {
        fields.one(field, "certificates in PEM, in base64", read_bundle)
    });
    fields.refuse_rest();
    Some(HttpsTrust { ca_bundle: ca_bundle? })
}

/// Reads base64, which base64(1) folds.
fn read_bundle(value: &Json) -> Option<CaBundle> {
    let text: String = value.text()?.split_whitespace().collect();
    serde_json::from_value(Value::String(text)).ok()
}
