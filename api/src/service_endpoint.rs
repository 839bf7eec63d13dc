//! Push to a Service.

use k8s_openapi::ByteString;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::DEFAULT_HTTP_PATH;

/// A Service of the target pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEndpoint {
    /// The Service's name. It needs a cluster IP.
    pub name: String,
    /// The Service's port.
    pub port: u16,
    /// The path, which starts with a slash; `/evacuation` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How to speak HTTPS; without it the question goes out in plain text, and without a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<HttpsTrust>,
}

impl ServiceEndpoint {
    /// The path, or its default.
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(DEFAULT_HTTP_PATH)
    }

    /// The Service's DNS name: what its certificate must be for, and the audience of the token that it is shown.
    pub fn host(&self, namespace: &str) -> String {
        format!("{}.{namespace}.svc", self.name)
    }
}

/// Whom to trust to be the Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpsTrust {
    /// The certificate authorities that may sign the Service's certificate, which is for `NAME.NAMESPACE.svc`: PEM, in
    /// base64, as in an APIService. No others are trusted.
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
