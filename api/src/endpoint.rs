//! Endpoints of a pushed responder: of the target pod, or of a Service.

use k8s_openapi::ByteString;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Path of an endpoint that names none.
pub const DEFAULT_HTTP_PATH: &str = "/evacuation";

/// An HTTP endpoint of the target pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpEndpoint {
    /// Port on the pod's IP.
    pub port: u16,
    /// Path, which starts with a slash; `/evacuation` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True to ask a pod on the host's network too, whose IP is the node's; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_host_network: Option<bool>,
}

impl HttpEndpoint {
    /// Returns the path, or its default.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(DEFAULT_HTTP_PATH)
    }

    /// Returns true when the controller may ask a pod on the host's network.
    pub fn allows_host_network(&self) -> bool {
        self.allow_host_network.unwrap_or_default()
    }
}

/// A Service of the target pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEndpoint {
    /// Name of the Service. It needs a cluster IP.
    pub name: String,
    /// Port of the Service.
    pub port: u16,
    /// Path, which starts with a slash; `/evacuation` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// HTTPS settings. Without them the controller posts in plain text, and without a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<HttpsTrust>,
}

impl ServiceEndpoint {
    /// Returns the path, or its default.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(DEFAULT_HTTP_PATH)
    }

    /// Returns the Service's DNS name: the name in its certificate, and the audience of the controller's
    /// token.
    pub fn host(&self, namespace: &str) -> String {
        format!("{}.{namespace}.svc", self.name)
    }
}

/// Trust settings of a Service's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpsTrust {
    /// Certificate authorities that may sign the Service's certificate, which is for `NAME.NAMESPACE.svc`.
    /// PEM, in base64, as in an APIService. No others are trusted.
    pub ca_bundle: CaBundle,
}

/// Certificates in PEM. In base64 on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CaBundle(pub Vec<u8>);

impl Serialize for CaBundle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ByteString(self.0.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CaBundle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ByteString::deserialize(deserializer).map(|bytes| Self(bytes.0))
    }
}

impl JsonSchema for CaBundle {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CaBundle".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": "string", "format": "byte"})
    }
}
