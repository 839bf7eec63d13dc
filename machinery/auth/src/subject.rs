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

/// Reason that a certificate names no user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubjectError {
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the {0} of the certificate's subject is not text")]
    NotText(&'static str),
    #[error("the certificate's subject has an empty UID or several")]
    Uid,
}

/// Returns the common name; `None` when there is none or it is empty. Of several the last counts, as in Go.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Result<Option<String>, SubjectError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| SubjectError::Unreadable)?;
    common_name_of(parsed.subject())
}

/// Returns the user: common name, organisations as groups, and the ID of the credential. `None` when there is
/// no common name. The rules are those of upstream's `CommonNameUserConversion`.
pub(crate) fn user(certificate: &CertificateDer<'_>) -> Result<Option<UserInfo>, SubjectError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| SubjectError::Unreadable)?;
    let subject = parsed.subject();
    let Some(name) = common_name_of(subject)? else {
        return Ok(None);
    };
    let groups =
        subject.iter_organization().map(|value| text(value, "organization")).collect::<Result<_, _>>()?;
    let fingerprint = Sha256::digest(certificate);
    let credential = format!("X509SHA256={fingerprint:x}");
    let extra = BTreeMap::from([(CREDENTIAL_ID_KEY.to_owned(), vec![credential])]);
    Ok(Some(UserInfo { name, uid: uid_of(subject)?, groups, extra }))
}

fn common_name_of(subject: &X509Name<'_>) -> Result<Option<String>, SubjectError> {
    let name = subject.iter_common_name().last().map(|value| text(value, "common name")).transpose()?;
    Ok(name.filter(|name| !name.is_empty()))
}

fn uid_of(subject: &X509Name<'_>) -> Result<Option<String>, SubjectError> {
    let uids: Vec<_> = subject.iter_attributes().filter(|value| *value.attr_type() == UID).collect();
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
    value.as_str().map(ToOwned::to_owned).map_err(|_| SubjectError::NotText(attribute))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// Made by openssl, for rcgen makes subjects with one organisation only:
    /// `O = system:nodes, O = shop:admins, CN = first, CN = jane, 1.3.6.1.4.1.57683.2 = u-1`.
    const JANE: &[u8] = b"\
-----BEGIN CERTIFICATE-----\n\
MIIBujCCAWECFArnRILiVaVK7bL+2g3ZDY4W3pkYMAoGCCqGSM49BAMCMGAxFTAT\n\
BgNVBAoMDHN5c3RlbTpub2RlczEUMBIGA1UECgwLc2hvcDphZG1pbnMxDjAMBgNV\n\
BAMMBWZpcnN0MQ0wCwYDVQQDDARqYW5lMRIwEAYJKwYBBAGDwlMCDAN1LTEwHhcN\n\
MjYxMTIxMDIzODE0WhcNMzYxMTE4MDIzODE0WjBgMRUwEwYDVQQKDAxzeXN0ZW06\n\
bm9kZXMxFDASBgNVBAoMC3Nob3A6YWRtaW5zMQ4wDAYDVQQDDAVmaXJzdDENMAsG\n\
A1UEAwwEamFuZTESMBAGCSsGAQQBg8JTAgwDdS0xMFkwEwYHKoZIzj0CAQYIKoZI\n\
zj0DAQcDQgAEtuG9KzWZLNFPx2A8LpiXaN6i3hKO4k7Fx4aY8S77AofBgmWhRra4\n\
xsgT8oi9biphtoe2xF1zIKaToX6/NaK56jAKBggqhkjOPQQDAgNHADBEAiBsnkLJ\n\
8LD7xROH5ClnKi6opfnLkyGW+745SsurevgFmgIgXN+phJYwIi+le816Bj2Ekibg\n\
MJ+NYD4N0oSaBp3UEHE=\n\
-----END CERTIFICATE-----";
    /// `CN = jane, 1.3.6.1.4.1.57683.2 = u-1, 1.3.6.1.4.1.57683.2 = u-2`.
    const TWO_UIDS: &[u8] = b"\
-----BEGIN CERTIFICATE-----\n\
MIIBaTCCAQ8CFFYdod/evGBIMR9+/L9AFzhR08hWMAoGCCqGSM49BAMCMDcxDTAL\n\
BgNVBAMMBGphbmUxEjAQBgkrBgEEAYPCUwIMA3UtMTESMBAGCSsGAQQBg8JTAgwD\n\
dS0yMB4XDTI2MTEyMTAyMzgxNFoXDTM2MTExODAyMzgxNFowNzENMAsGA1UEAwwE\n\
amFuZTESMBAGCSsGAQQBg8JTAgwDdS0xMRIwEAYJKwYBBAGDwlMCDAN1LTIwWTAT\n\
BgcqhkjOPQIBBggqhkjOPQMBBwNCAAS24b0rNZks0U/HYDwumJdo3qLeEo7iTsXH\n\
hpjxLvsCh8GCZaFGtrjGyBPyiL1uKmG2h7bEXXMgppOhfr81ornqMAoGCCqGSM49\n\
BAMCA0gAMEUCIQC7As4/JPCeT6DMBWYj+Nio/9CqOHS0mpiSsKzBFx86ygIgcP8/\n\
pabM1g0u6FCwnNs4SIzx8duy7yh8eyMlGJoQX6s=\n\
-----END CERTIFICATE-----";
    /// `O = only`.
    const NO_NAME: &[u8] = b"\
-----BEGIN CERTIFICATE-----\n\
MIIBGTCBvwIUR6FmbVObCZw9PO+bSEzX9Hwm+9AwCgYIKoZIzj0EAwIwDzENMAsG\n\
A1UECgwEb25seTAeFw0yNjExMjEwMjM4MTRaFw0zNjExMTgwMjM4MTRaMA8xDTAL\n\
BgNVBAoMBG9ubHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAS24b0rNZks0U/H\n\
YDwumJdo3qLeEo7iTsXHhpjxLvsCh8GCZaFGtrjGyBPyiL1uKmG2h7bEXXMgppOh\n\
fr81ornqMAoGCCqGSM49BAMCA0kAMEYCIQD6x/wWo9xc/r6vBuT7BKOOw9X4KZjt\n\
FEvmfm+c3BSQOwIhAI1gFgEq+zj8dKYdrbqYr66aDDBCV+MlRtsUnG+RqK6D\n\
-----END CERTIFICATE-----";

    fn certificate(pem: &[u8]) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem).unwrap()
    }

    #[test]
    fn the_last_common_name_is_the_user_and_every_organisation_a_group() {
        let user = user(&certificate(JANE)).unwrap().unwrap();
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["system:nodes", "shop:admins"]);
        assert_eq!(user.uid.as_deref(), Some("u-1"));
        let credential = user.extra_value(CREDENTIAL_ID_KEY).unwrap();
        let fingerprint = credential.strip_prefix("X509SHA256=").unwrap();
        assert_eq!(fingerprint.len(), 64);
        assert!(fingerprint.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')));
    }

    #[test]
    fn two_uids_are_none() {
        assert!(matches!(user(&certificate(TWO_UIDS)), Err(SubjectError::Uid)));
    }

    #[test]
    fn a_certificate_without_a_common_name_is_nobodys() {
        assert!(user(&certificate(NO_NAME)).unwrap().is_none());
        assert_eq!(common_name(&certificate(NO_NAME)).unwrap(), None);
    }

    #[test]
    fn bytes_that_are_no_certificate_name_no_user() {
        assert!(matches!(user(&CertificateDer::from(vec![1, 2, 3])), Err(SubjectError::Unreadable)));
    }
}
