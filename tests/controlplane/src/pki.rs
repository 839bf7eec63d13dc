use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::{Error, Result};

/// A certificate authority for tests, with an ECDSA P-256 key.
pub struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its private key, in PEM (the key in PKCS#8).
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key.
    pub key_pem: String,
}

/// Files of an [`Identity`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Pki {
    /// Makes an authority with this common name.
    ///
    /// # Errors
    ///
    /// Fails when no key can be made.
    pub fn new(name: &str) -> Result<Self> {
        let make = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::CrlSign,
                KeyUsagePurpose::DigitalSignature,
            ];
            let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
            Ok(Self { issuer })
        };
        make().map_err(cannot(name))
    }

    /// The authority's own certificate, in PEM.
    pub fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes the authority's own certificate to a file.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn write_ca(&self, path: &Path) -> Result<()> {
        write(path, &self.ca_pem())
    }

    /// Issues a certificate for a server with these DNS names and IP addresses. The first is its common name.
    ///
    /// # Errors
    ///
    /// Fails when a name is no DNS name.
    pub fn serving(&self, names: &[&str]) -> Result<Identity> {
        let common_name = names.first().copied().unwrap_or("localhost");
        self.issue(common_name, None, names, ExtendedKeyUsagePurpose::ServerAuth, false)
    }

    /// Issues a certificate for a server whose time is over.
    ///
    /// # Errors
    ///
    /// Fails when a name is no DNS name.
    pub fn expired(&self, names: &[&str]) -> Result<Identity> {
        let common_name = names.first().copied().unwrap_or("localhost");
        self.issue(common_name, None, names, ExtendedKeyUsagePurpose::ServerAuth, true)
    }

    /// Issues a client certificate: Kubernetes reads the common name as the user, the organization as a
    /// group.
    ///
    /// # Errors
    ///
    /// Fails when no key can be made.
    pub fn client(&self, common_name: &str, organization: Option<&str>) -> Result<Identity> {
        self.issue(common_name, organization, &[], ExtendedKeyUsagePurpose::ClientAuth, false)
    }

    fn issue(
        &self,
        common_name: &str,
        organization: Option<&str>,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
        expired: bool,
    ) -> Result<Identity> {
        let make = || {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name.push(DnType::CommonName, common_name);
            if let Some(organization) = organization {
                params.distinguished_name.push(DnType::OrganizationName, organization);
            }
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
            params.extended_key_usages = vec![usage];
            params.use_authority_key_identifier_extension = true;
            if expired {
                params.not_after = rcgen::date_time_ymd(2020, 1, 1);
                params.not_before = rcgen::date_time_ymd(2019, 1, 1);
            }
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.issuer)?;
            Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
        };
        make().map_err(cannot(common_name))
    }
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key` into a folder.
    ///
    /// The files are replaced one after the other: a server that reloads them may see a pair that does not
    /// match.
    ///
    /// # Errors
    ///
    /// Fails when a file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<IdentityFiles> {
        let files = IdentityFiles {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        };
        write(&files.certificate, &self.certificate_pem)?;
        write(&files.key, &self.key_pem)?;
        Ok(files)
    }
}

pub(crate) fn write(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).map_err(Error::file("write", path))
}

pub(crate) fn cannot(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Certificate { name, source }
}
