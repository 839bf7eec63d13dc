//! The ConfigMap `extension-apiserver-authentication`: how the cluster authenticates callers of aggregated
//! API servers.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use http::HeaderName;

use crate::{CaBundle, CaBundleError};

/// The namespace of the ConfigMap.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The name of the ConfigMap.
pub(crate) const NAME: &str = "extension-apiserver-authentication";

/// Reason that the ConfigMap cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A CA bundle is unusable.
    #[error("{key} of configmap {NAMESPACE}/{NAME} is unusable")]
    CaBundle {
        /// The ConfigMap's key.
        key: &'static str,
        /// Problem of the bundle.
        #[source]
        source: CaBundleError,
    },
    /// A list is not a JSON array of strings.
    #[error("{key} of configmap {NAMESPACE}/{NAME} is not a JSON list of strings")]
    List {
        /// The ConfigMap's key.
        key: &'static str,
        /// Error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// A name that HTTP does not allow for a header.
    #[error("{key} of configmap {NAMESPACE}/{NAME} holds {value:?}, which is not the name of a header")]
    Header {
        /// The ConfigMap's key.
        key: &'static str,
        /// The value.
        value: String,
    },
}

/// Authentication settings of aggregated API servers, as kube-apiserver publishes them.
#[derive(Clone, Debug, Default)]
pub struct AuthenticationConfig {
    /// CAs of client certificates; `None` when the cluster authenticates no user by certificate.
    pub client_ca: Option<CaBundle>,
    /// Front-proxy trust settings; `None` when the cluster does not aggregate.
    pub request_header: Option<RequestHeaderConfig>,
}

/// Front-proxy trust settings.
#[derive(Clone, Debug)]
pub struct RequestHeaderConfig {
    /// CAs of the front proxy's certificate.
    pub ca: CaBundle,
    /// Common names that the certificate may have; empty for any.
    pub allowed_names: Vec<String>,
    /// Headers with the name of the user. The first that has a value counts.
    pub username_headers: Vec<HeaderName>,
    /// Headers with the UID of the user. The first that has a value counts.
    pub uid_headers: Vec<HeaderName>,
    /// Headers with groups. All values count.
    pub group_headers: Vec<HeaderName>,
    /// Prefixes of the names of headers with extras, in lower case.
    pub extra_prefixes: Vec<String>,
}

impl AuthenticationConfig {
    /// Reads the data of the ConfigMap. A missing or empty CA disables its authentication method.
    pub fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let client_ca = ca_bundle(data, "client-ca-file")?;
        let request_header = match ca_bundle(data, "requestheader-client-ca-file")? {
            None => None,
            Some(ca) => Some(RequestHeaderConfig {
                ca,
                allowed_names: list(data, "requestheader-allowed-names")?,
                username_headers: headers(data, "requestheader-username-headers")?,
                uid_headers: headers(data, "requestheader-uid-headers")?,
                group_headers: headers(data, "requestheader-group-headers")?,
                extra_prefixes: prefixes(data, "requestheader-extra-headers-prefix")?,
            }),
        };
        Ok(Self { client_ca, request_header })
    }
}

/// Configuration in force, shared by the authenticators. It is replaced as a whole when the cluster's
/// changes.
#[derive(Debug, Default)]
pub struct CurrentConfig(ArcSwap<AuthenticationConfig>);

impl CurrentConfig {
    /// Starts with this configuration.
    pub fn new(config: AuthenticationConfig) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(config)))
    }

    /// The configuration in force now.
    pub fn load(&self) -> Arc<AuthenticationConfig> {
        self.0.load_full()
    }

    /// Replaces the configuration. It applies to every request that begins afterwards.
    pub fn replace(&self, config: AuthenticationConfig) {
        self.0.store(Arc::new(config));
    }
}

fn ca_bundle(data: &BTreeMap<String, String>, key: &'static str) -> Result<Option<CaBundle>, ConfigError> {
    match data.get(key).filter(|pem| !pem.trim().is_empty()) {
        None => Ok(None),
        Some(pem) => CaBundle::from_pem(pem.as_bytes())
            .map(Some)
            .map_err(|source| ConfigError::CaBundle { key, source }),
    }
}

fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, ConfigError> {
    match data.get(key).filter(|value| !value.is_empty()) {
        None => Ok(Vec::new()),
        // Go reads `null` as an empty list, and kube-apiserver writes what Go reads.
        Some(value) => serde_json::from_str::<Option<Vec<String>>>(value)
            .map(Option::unwrap_or_default)
            .map_err(|source| ConfigError::List { key, source }),
    }
}

fn headers(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<HeaderName>, ConfigError> {
    let parse = |value: String| match HeaderName::from_bytes(value.trim().as_bytes()) {
        Ok(name) => Ok(name),
        Err(_) => Err(ConfigError::Header { key, value }),
    };
    list(data, key)?.into_iter().map(parse).collect()
}

/// Prefixes are checked as header names: an empty one would make every header an extra.
fn prefixes(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, ConfigError> {
    Ok(headers(data, key)?.into_iter().map(|name| name.as_str().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ca() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap().pem()
    }

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_config_map_of_a_cluster_is_read() {
        let config = AuthenticationConfig::from_config_map(&data(&[
            ("client-ca-file", &ca()),
            ("requestheader-client-ca-file", &ca()),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ]))
        .unwrap();
        assert!(config.client_ca.is_some());
        let request_header = config.request_header.unwrap();
        assert_eq!(request_header.allowed_names, ["front-proxy-client"]);
        assert_eq!(request_header.username_headers, ["x-remote-user"]);
        assert_eq!(request_header.uid_headers, ["x-remote-uid"]);
        assert_eq!(request_header.group_headers, ["x-remote-group"]);
        assert_eq!(request_header.extra_prefixes, ["x-remote-extra-"]);
    }

    #[test]
    fn authentication_that_is_not_configured_is_off() {
        let config = AuthenticationConfig::from_config_map(&data(&[])).unwrap();
        assert!(config.client_ca.is_none());
        assert!(config.request_header.is_none());

        let only_ca =
            data(&[("requestheader-client-ca-file", &ca()), ("requestheader-allowed-names", "null")]);
        let request_header = AuthenticationConfig::from_config_map(&only_ca).unwrap().request_header.unwrap();
        assert!(request_header.allowed_names.is_empty());
        assert!(request_header.username_headers.is_empty());
    }

    #[test]
    fn what_is_broken_is_named() {
        let cases = [
            ("client-ca-file", "no certificate at all", "client-ca-file of configmap"),
            ("requestheader-allowed-names", "front-proxy-client", "is not a JSON list of strings"),
            ("requestheader-extra-headers-prefix", r#"[""]"#, "is not the name of a header"),
            ("requestheader-username-headers", r#"["X Remote User"]"#, "is not the name of a header"),
        ];
        for (key, value, message) in cases {
            let mut data = data(&[("requestheader-client-ca-file", &ca())]);
            data.insert(key.to_owned(), value.to_owned());
            let error = AuthenticationConfig::from_config_map(&data).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains(key), "{key}: {error}");
        }
    }
}
