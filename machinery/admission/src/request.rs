//! AdmissionRequests, as webhooks and expressions see them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::subject::{Subject, operation};

/// AdmissionRequest as expressions see it: without the UID and the objects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdmissionRequest<'a> {
    kind: Value,
    resource: Value,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Value,
    request_resource: Value,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: User<'a>,
    dry_run: bool,
    options: Option<&'a Value>,
}

#[derive(Serialize)]
struct User<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a String>,
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl<'a> AdmissionRequest<'a> {
    /// Describes a write.
    pub(crate) fn new(subject: &Subject<'a>) -> Self {
        let attributes = subject.attributes;
        let context = attributes.context;
        let group = attributes.group;
        let kind = |version| {
            let (group, version) = attributes.kind_version.unwrap_or((group, version));
            json!({"group": group, "version": version, "kind": attributes.kind})
        };
        let resource =
            |version: &str| json!({"group": group, "version": version, "resource": attributes.resource});
        let user = &context.user;
        Self {
            kind: kind(subject.version),
            resource: resource(subject.version),
            sub_resource: &context.subresource,
            request_kind: kind(attributes.version),
            request_resource: resource(attributes.version),
            request_sub_resource: &context.subresource,
            name: attributes.name,
            namespace: &context.namespace,
            operation: operation(attributes),
            user_info: User {
                username: &user.name,
                uid: user.uid.as_ref(),
                groups: &user.groups,
                extra: &user.extra,
            },
            dry_run: context.dry_run,
            options: attributes.options,
        }
    }
}
