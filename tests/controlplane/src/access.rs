use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::{Error, Identity, Result, pki};

/// Bounds one read, watches included: kube ends those itself after 290 s at most.
const READ_TIMEOUT: Duration = Duration::from_secs(295);

/// Address and authority of the API server.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    server: String,
    ca_pem: String,
}

/// Credentials of a client.
pub(crate) enum Credentials<'a> {
    Certificate(&'a Identity),
    Token(&'a str),
}

impl Access {
    pub(crate) fn new(port: u16, ca_pem: String) -> Self {
        Self { server: format!("https://127.0.0.1:{port}"), ca_pem }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    fn kubeconfig(&self, user: &str, credentials: &Credentials<'_>) -> Value {
        let credentials = match credentials {
            Credentials::Certificate(identity) => json!({
                "client-certificate-data": STANDARD.encode(&identity.certificate_pem),
                "client-key-data": STANDARD.encode(&identity.key_pem),
            }),
            Credentials::Token(token) => json!({ "token": token }),
        };
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "controlplane",
                "cluster": {
                    "server": self.server,
                    "certificate-authority-data": STANDARD.encode(&self.ca_pem),
                },
            }],
            "users": [{ "name": user, "user": credentials }],
            "contexts": [{ "name": user, "context": { "cluster": "controlplane", "user": user } }],
            "current-context": user,
        })
    }

    /// Writes a kubeconfig file that holds all it needs.
    pub(crate) fn write(&self, path: &Path, user: &str, credentials: &Credentials<'_>) -> Result<()> {
        // JSON is YAML.
        let text = format!("{:#}\n", self.kubeconfig(user, credentials));
        pki::write(path, &text)
    }

    pub(crate) async fn config(&self, user: &str, credentials: &Credentials<'_>) -> Result<kube::Config> {
        let cannot = |source: Box<dyn std::error::Error + Send + Sync>| Error::ClientConfig {
            user: user.to_owned(),
            source,
        };
        let kubeconfig: Kubeconfig = serde_json::from_value(self.kubeconfig(user, credentials))
            .map_err(|error| cannot(error.into()))?;
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| cannot(error.into()))?;
        // A test is to see what the server answered; kube would wait and retry on 429.
        config.default_retry = false;
        config.proxy_url = None;
        config.connect_timeout = Some(Duration::from_secs(10));
        config.read_timeout = Some(READ_TIMEOUT);
        Ok(config)
    }
}
