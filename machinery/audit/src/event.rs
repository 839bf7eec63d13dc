//! Events: what one request did, `audit.k8s.io/v1` Event.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};
use machinery_auth::UserInfo;
use serde::Serialize;

use crate::{Level, Stage};

/// Event of one request at one stage. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Level of the policy.
    pub level: Level,
    /// Identifier of the request, which the client sees in the header `Audit-Id`.
    pub audit_id: Arc<str>,
    /// Stage of the request.
    pub stage: Stage,
    /// Path and query.
    pub request_uri: Arc<str>,
    /// Verb, or for paths that are no resources the HTTP method in lower case.
    pub verb: Arc<str>,
    /// User of the request.
    pub user: Arc<User>,
    /// Addresses of the proxies and of the client. Clients can forge all but the last.
    pub source_ips: Arc<[String]>,
    /// The header `User-Agent`.
    pub user_agent: Arc<str>,
    /// Object that the request is for.
    pub object_ref: Option<ObjectReference>,
    /// Status of the reply.
    pub response_status: Option<ResponseStatus>,
    /// Body of the request.
    pub request_object: Option<Body>,
    /// Object of the reply.
    pub response_object: Option<Body>,
    /// True when the objects are recorded without their managed fields.
    pub omit_managed_fields: bool,
    /// Time at which the request arrived.
    pub received: DateTime<Utc>,
    /// Time of the stage.
    pub at: DateTime<Utc>,
    /// Facts that components added.
    pub annotations: BTreeMap<String, String>,
}

/// Status of a reply. A success has its code only, unless the reply itself is a `metav1.Status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResponseStatus {
    metadata: Empty,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<StatusDetails>,
    code: u16,
}

/// An object without fields, which kube-apiserver writes for the metadata of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Empty {}

impl ResponseStatus {
    /// The status of a reply that is no `metav1.Status`.
    pub fn of_code(code: u16) -> Self {
        Self { code, ..Self::default() }
    }

    /// A reply that is that `metav1.Status`, sent with that code.
    pub fn of_status(status: Status, code: u16) -> Self {
        let Status { status, message, reason, details, .. } = status;
        Self { metadata: Empty {}, status, message, reason, details, code }
    }

    /// A failure that no `metav1.Status` was sent for.
    pub fn failure(code: u16, reason: Option<&str>, message: &str) -> Self {
        Self {
            status: Some("Failure".to_owned()),
            message: Some(message.to_owned()),
            reason: reason.map(str::to_owned),
            ..Self::of_code(code)
        }
    }

    /// A reply with that code, and a message for the log.
    pub fn with_message(code: u16, message: &str) -> Self {
        Self { message: Some(message.to_owned()), ..Self::of_code(code) }
    }
}

/// A recorded object: its bytes as they were sent. The log decodes them when it writes the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// JSON.
    Json(Bytes),
    /// YAML, which is recorded as JSON.
    Yaml(Bytes),
}

/// User of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct User {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&UserInfo> for User {
    fn from(user: &UserInfo) -> Self {
        let UserInfo { name, uid, groups, extra } = user.clone();
        Self { username: name, uid: uid.filter(|uid| !uid.is_empty()), groups, extra }
    }
}

impl User {
    /// The user's name; empty when the request was not authenticated.
    pub fn name(&self) -> &str {
        &self.username
    }

    fn size(&self) -> usize {
        let extra = self.extra.iter().map(|(key, values)| key.len() + total(values));
        self.username.len() + total(&self.groups) + extra.sum::<usize>()
    }
}

/// Object that a request is for. Empty fields are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Plural of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The UID that the request names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The resourceVersion that the request names.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

impl Body {
    /// The bytes, whatever their syntax.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Json(bytes) | Self::Yaml(bytes) => bytes,
        }
    }
}

impl Event {
    /// Number of bytes that the event occupies, about.
    pub(crate) fn size(&self) -> usize {
        const FIXED: usize = 1024;
        let body = |body: &Option<Body>| body.as_ref().map_or(0, |body| body.bytes().len());
        let texts = [&self.audit_id, &self.request_uri, &self.verb, &self.user_agent];
        let annotations = self.annotations.iter().map(|(key, value)| key.len() + value.len());
        let status = self.response_status.as_ref().and_then(|status| status.message.as_ref());
        FIXED
            + texts.iter().map(|text| text.len()).sum::<usize>()
            + total(&self.source_ips)
            + self.user.size()
            + annotations.sum::<usize>()
            + status.map_or(0, String::len)
            + body(&self.request_object)
            + body(&self.response_object)
    }
}

fn total(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}
