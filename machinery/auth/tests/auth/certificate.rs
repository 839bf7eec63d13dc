//! Certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// A CA, or an intermediate of one.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) pem: String,
}

/// A certificate and its key.
pub(crate) struct Leaf {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) pem: String,
    pub(crate) key_pem: String,
}

impl Leaf {
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).unwrap()
    }

    /// Chain of a peer that has no intermediates.
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone()]
    }
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |_| {})
    }

    /// A CA that was valid once.
    pub(crate) fn expired(name: &str) -> Self {
        Self::with(name, |params| params.not_after = date_time_ymd(2020, 1, 1))
    }

    fn with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let (mut params, key) = (ca_params(name), KeyPair::generate().unwrap());
        change(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: certificate.pem(), certificate: certificate.into(), issuer: Issuer::new(params, key) }
    }

    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let (params, key) = (ca_params(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self { pem: certificate.pem(), certificate: certificate.into(), issuer: Issuer::new(params, key) }
    }

    /// A client's certificate: common name and organisation.
    pub(crate) fn client(&self, name: &str, organization: &str) -> Leaf {
        self.leaf(name, |params| {
            params.distinguished_name.push(DnType::OrganizationName, organization);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }

    /// A client's certificate that was valid once.
    pub(crate) fn expired_client(&self, name: &str) -> Leaf {
        self.leaf(name, |params| params.not_after = date_time_ymd(2020, 1, 1))
    }

    /// A client's certificate that is not valid yet.
    pub(crate) fn future_client(&self, name: &str) -> Leaf {
        self.leaf(name, |params| params.not_before = date_time_ymd(4000, 1, 1))
    }

    /// A server's certificate, for `localhost`.
    pub(crate) fn server(&self, name: &str) -> Leaf {
        self.leaf(name, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        })
    }

    pub(crate) fn leaf(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf { pem: certificate.pem(), certificate: certificate.into(), key_pem: key.serialize_pem() }
    }
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}
