//! Certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

/// A certificate authority.
pub(crate) struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("a CA") }
    }

    /// The certificate of the authority, PEM.
    pub(crate) fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate of a server and its key, PEM.
    pub(crate) fn serving(&self, host: &str) -> (String, String) {
        let params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate of a client and its key, PEM.
    pub(crate) fn client(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, name);
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("issued");
        (certificate.pem(), key.serialize_pem())
    }
}
