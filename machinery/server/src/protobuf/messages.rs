//! The messages. Source of the field numbers: `generated.proto` of `k8s.io/apimachinery/pkg/apis/meta/v1` and
//! `k8s.io/apimachinery/pkg/runtime`.
//!
//! Fields without presence in Go are plain here: absent and empty are the same.

#![allow(clippy::struct_field_names, reason = "the names are those of upstream")]

use std::collections::BTreeMap;

use prost::Message;

/// Envelope of every message.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub(crate) type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) raw: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) content_encoding: String,
    #[prost(string, tag = "4")]
    pub(crate) content_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeMeta {
    #[prost(string, tag = "1")]
    pub(crate) api_version: String,
    #[prost(string, tag = "2")]
    pub(crate) kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteOptions {
    #[prost(int64, optional, tag = "1")]
    pub(crate) grace_period_seconds: Option<i64>,
    #[prost(message, optional, tag = "2")]
    pub(crate) preconditions: Option<Preconditions>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) orphan_dependents: Option<bool>,
    #[prost(string, optional, tag = "4")]
    pub(crate) propagation_policy: Option<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) dry_run: Vec<String>,
    #[prost(bool, optional, tag = "6")]
    pub(crate) ignore_store_read_error: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Preconditions {
    #[prost(string, optional, tag = "1")]
    pub(crate) uid: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) resource_version: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(string, tag = "2")]
    pub(crate) status: String,
    #[prost(string, tag = "3")]
    pub(crate) message: String,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusDetails {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) group: String,
    #[prost(string, tag = "3")]
    pub(crate) kind: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    pub(crate) retry_after_seconds: i32,
    #[prost(string, tag = "6")]
    pub(crate) uid: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusCause {
    #[prost(string, tag = "1")]
    pub(crate) reason: String,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(string, tag = "3")]
    pub(crate) field: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    #[prost(string, tag = "1")]
    pub(crate) self_link: String,
    #[prost(string, tag = "2")]
    pub(crate) resource_version: String,
    #[prost(string, tag = "3")]
    pub(crate) r#continue: String,
    #[prost(int64, optional, tag = "4")]
    pub(crate) remaining_item_count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialObjectMetadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialObjectMetadataList {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) items: Vec<PartialObjectMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) generate_name: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "4")]
    pub(crate) self_link: String,
    #[prost(string, tag = "5")]
    pub(crate) uid: String,
    #[prost(string, tag = "6")]
    pub(crate) resource_version: String,
    #[prost(int64, tag = "7")]
    pub(crate) generation: i64,
    #[prost(message, optional, tag = "8")]
    pub(crate) creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    pub(crate) deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    pub(crate) finalizers: Vec<String>,
    #[prost(message, repeated, tag = "17")]
    pub(crate) managed_fields: Vec<ManagedFieldsEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnerReference {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) uid: String,
    #[prost(string, tag = "5")]
    pub(crate) api_version: String,
    #[prost(bool, optional, tag = "6")]
    pub(crate) controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub(crate) block_owner_deletion: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ManagedFieldsEntry {
    #[prost(string, tag = "1")]
    pub(crate) manager: String,
    #[prost(string, tag = "2")]
    pub(crate) operation: String,
    #[prost(string, tag = "3")]
    pub(crate) api_version: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) time: Option<Time>,
    #[prost(string, tag = "6")]
    pub(crate) fields_type: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) fields_v1: Option<FieldsV1>,
    #[prost(string, tag = "8")]
    pub(crate) subresource: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldsV1 {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) raw: Vec<u8>,
}

/// Time in whole seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}
