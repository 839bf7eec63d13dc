//! Kubernetes' protobuf encoding of the types of `meta/v1` that a server of custom kinds reads and writes.
//!
//! As for custom resources, the kinds themselves have no such encoding. Clients such as the garbage collector
//! send `DeleteOptions` in it, and ask for metadata and failures in it.
//!
//! Source of the format: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`.

mod convert;
mod messages;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta, Status};
use prost::Message;

use self::messages::{RawExtension, TypeMeta, Unknown, WatchEvent};

/// Media type of the encoding.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// First bytes of every message that is not part of a stream.
const MAGIC: &[u8] = b"k8s\0";

/// Reason for which bytes are not the expected message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// The first bytes are others, in upstream's words.
    #[error("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")]
    NoPrefix,
    /// Nothing follows the first bytes.
    #[error("empty body")]
    Empty,
    /// The message cannot be read.
    #[error("{0}")]
    Malformed(#[from] prost::DecodeError),
}

/// Reads options of a deletion. `kind` and `apiVersion` are absent when the message does not name them.
pub(crate) fn delete_options(body: &[u8]) -> Result<DeleteOptions, ProtobufError> {
    let message = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoPrefix)?;
    if message.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let unknown = Unknown::decode(message)?;
    let options = messages::DeleteOptions::decode(unknown.raw.as_slice())?;
    let TypeMeta { api_version, kind } = unknown.type_meta.unwrap_or_default();
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(DeleteOptions { api_version: given(api_version), kind: given(kind), ..options.into() })
}

/// Returns true for a message of this encoding. JSON starts with other bytes.
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Encodes a `metav1.Status`.
pub(crate) fn status(status: &Status) -> Bytes {
    envelope("v1", "Status", &messages::Status::from(status))
}

/// Encodes the metadata of an object, in that version of `meta.k8s.io`.
pub(crate) fn partial(metadata: &ObjectMeta, api_version: &str) -> Bytes {
    envelope(api_version, "PartialObjectMetadata", &messages::PartialObjectMetadata::from(metadata))
}

/// Encodes the metadata of the objects of a list.
pub(crate) fn partial_list<'a>(
    list: &ListMeta,
    items: impl Iterator<Item = &'a ObjectMeta>,
    api_version: &str,
) -> Bytes {
    let list = messages::PartialObjectMetadataList {
        metadata: Some(list.into()),
        items: items.map(Into::into).collect(),
    };
    envelope(api_version, "PartialObjectMetadataList", &list)
}

/// Writes one event of a watch, whose object is encoded, as a frame: four bytes with the length, then the
/// event.
pub(crate) fn put_event(frames: &mut bytes::BytesMut, event_type: &str, object: Bytes) {
    let event =
        WatchEvent { r#type: event_type.to_owned(), object: Some(RawExtension { raw: object.into() }) };
    let message = event.encode_to_vec();
    frames.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frames.extend_from_slice(&message);
}

fn envelope(api_version: &str, kind: &str, message: &impl Message) -> Bytes {
    let type_meta = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let unknown = Unknown { type_meta: Some(type_meta), raw: message.encode_to_vec(), ..Unknown::default() };
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&unknown.encode_to_vec());
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `metav1.DeleteOptions` with every field, as k8s.io/apimachinery encodes it.
    const OPTIONS: &[u8] =
        b"k8s\0\n\x13\n\x02v1\x12\rDeleteOptions\x12\x1f\x08\x05\x12\x06\n\x01u\x12\x017\x18\x01\
        \"\nBackground*\x03All0\x01\x1a\0\"\0";

    #[test]
    fn options_are_read_as_go_writes_them() {
        let options = delete_options(OPTIONS).expect("options");
        assert_eq!(
            (options.api_version.as_deref(), options.kind.as_deref()),
            (Some("v1"), Some("DeleteOptions"))
        );
        assert_eq!(options.grace_period_seconds, Some(5));
        let preconditions = options.preconditions.expect("preconditions");
        assert_eq!(
            (preconditions.uid.as_deref(), preconditions.resource_version.as_deref()),
            (Some("u"), Some("7"))
        );
        assert_eq!(options.orphan_dependents, Some(true));
        assert_eq!(options.propagation_policy.as_deref(), Some("Background"));
        assert_eq!(options.dry_run, Some(vec!["All".to_owned()]));
        assert_eq!(options.ignore_store_read_error_with_cluster_breaking_potential, Some(true));
    }

    #[test]
    fn metadata_survives_the_encoding() {
        let metadata = serde_json::json!({
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-11-20T22:00:00Z", "labels": {"a": "b"}, "annotations": {"c": "d"},
            "finalizers": ["a.b/c"], "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "o", "controller": true}],
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2026-11-20T22:00:00Z", "fieldsV1": {"f:spec": {}}, "subresource": "status"}],
        });
        let metadata: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
        let bytes = partial(&metadata, "meta.k8s.io/v1");
        let unknown = Unknown::decode(bytes.strip_prefix(MAGIC).expect("a prefix")).expect("an envelope");
        let kind = unknown.type_meta.expect("a type").kind;
        let read = messages::PartialObjectMetadata::decode(unknown.raw.as_slice()).expect("a message");
        assert_eq!((kind.as_str(), read), ("PartialObjectMetadata", (&metadata).into()));
        let read = messages::ObjectMeta::from(&metadata);
        assert_eq!(read.managed_fields[0].fields_v1.as_ref().expect("fields").raw, br#"{"f:spec":{}}"#);
        assert_eq!(read.creation_timestamp, Some(messages::Time { seconds: 1_795_212_000 }));
        assert_eq!(
            (read.owner_references[0].uid.as_str(), read.owner_references[0].controller),
            ("o", Some(true))
        );
    }

    #[test]
    fn what_is_no_message_is_an_error_in_upstreams_words() {
        let cases: [(&[u8], &str); 4] = [
            (
                b"{}",
                "provided data does not appear to be a protobuf message, expected prefix [107, 56, 115, 0]",
            ),
            (
                b"",
                "provided data does not appear to be a protobuf message, expected prefix [107, 56, 115, 0]",
            ),
            (b"k8s\0", "empty body"),
            (b"k8s\0\n\xff", "failed to decode Protobuf message"),
        ];
        for (bytes, message) in cases {
            let error = delete_options(bytes).expect_err("no message").to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
