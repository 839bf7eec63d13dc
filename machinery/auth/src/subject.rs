//! The user that a client certificate's subject names.

use std::collections::BTreeMap;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::{
    asn1_rs::Oid,
    oid_registry::asn1_rs::oid,
    prelude::{FromDer, X509Certificate},
    x509::{AttributeTypeAndValue, X509Name},
};

use crate::{UserInfo, user::CREDENTIAL_ID_KEY};

/// The subject attribute that holds a user's UID (`k8s.io/apimachinery/pkg/apis/asn1`, `X509UID`).
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Why no user can be read from a certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubjectError {
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the {0} of the certificate's subject is not text")]
    NotText(&'static str),
    #[error("the certificate's subject has an empty UID or several")]
    Uid,
}

/// The common name; `None` when there is none or it is empty. Of several the last counts, as in Go.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Result<Option<String>, SubjectError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| SubjectError::Unreadable)?;
    common_name_of(parsed.subject())
}

/// The user: common name, organisations as groups, and the credential's ID. `None` when there is no common name.
/// The rules are those of upstream's `CommonNameUserConversion`.
pub(crate) fn user(certificate: &CertificateDer<'_>) -> Result<Option<UserInfo>, SubjectError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| SubjectError::Unreadable)?;
    let subject = parsed.subject();
    let Some(name) = common_name_of(subject)? else {
        return Ok(None);
    };
    let groups = subject
        .iter_organization()
        .map(|value| text(value, "organization"))
        .collect::<Result<_, _>>()?;
    let fingerprint = Sha256::digest(certificate);
    let credential = format!("X509SHA256={fingerprint:x}");
    let extra = BTreeMap::from([(CREDENTIAL_ID_KEY.to_owned(), vec![credential])]);
    Ok(Some(UserInfo {
        name,
        uid: uid_of(subject)?,
        groups,
        extra,
    }))
}

fn common_name_of(subject: &X509Name<'_>) -> Result<Option<String>, SubjectError> {
    let name = subject
        .iter_common_name()
        .last()
        .map(|value| text(value, "common name"))
        .transpose()?;
    Ok(name.filter(|name| !name.is_empty()))
}

fn uid_of(subject: &X509Name<'_>) -> Result<Option<String>, SubjectError> {
    let uids: Vec<_> = subject
        .iter_attributes()
        .filter(|value| *value.attr_type() == UID)
        .collect();
    match uids.as_slice() {
        [] => Ok(None),
        [uid] => match text(uid, "UID")? {
            uid if uid.is_empty() => Err(SubjectError::Uid),
            uid => Ok(Some(uid)),
        },
        _ => Err(SubjectError::Uid),
    }
}

fn text(value: &AttributeTypeAndValue<'_>, attribute: &'static str) -> Result<String, SubjectError> {
    value
        .as_str()
        .map(ToOwned::to_owned)
        .map_err(|_| SubjectError::NotText(attribute))
}
