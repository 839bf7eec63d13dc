//! Rendering of objects, lists and watch events in the form that the caller asked for.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta, Status};
use serde_json::{Map, Value, json};

use super::{
    accept::{Form, IncludeObject, MetaVersion},
    encoding::Encoding,
};
use crate::{
    ApiError,
    item::Item,
    protobuf,
    registry::{EventType, Listed, WatchEvent},
    resource::Resource,
    table,
};

/// Writes items of one kind in one form.
pub(crate) struct Renderer<'a> {
    pub(crate) resource: &'a dyn Resource,
    pub(crate) form: Form,
    /// The form is written in protobuf if this is protobuf, else in JSON.
    pub(crate) encoding: Encoding,
    pub(crate) now: DateTime<Utc>,
}

impl Renderer<'_> {
    /// One object.
    pub(crate) fn object(&self, item: &Arc<dyn Item>) -> Result<Bytes, ApiError> {
        match self.form {
            Form::Object => item.json(),
            Form::Metadata(meta) if self.is_protobuf() => {
                Ok(protobuf::partial(item.clone().decoded()?.metadata(), meta.api_version()))
            }
            Form::Metadata(meta) => partial(item.as_ref(), meta),
            Form::Table(include, meta) => self.table_of_one(item, include, meta, true),
        }
    }

    /// A list.
    pub(crate) fn list(&self, listed: &Listed) -> Result<Bytes, ApiError> {
        let version = Some(listed.revision.to_string());
        let metadata = list_metadata(version, listed.next.as_deref(), listed.remaining);
        let items = listed.items.iter();
        match self.form {
            Form::Object => {
                let name = self.resource.name();
                let head = json!({
                    "kind": format!("{}List", name.kind),
                    "apiVersion": name.api_version(),
                    "metadata": metadata,
                });
                with_array(&head, "items", items.map(|item| item.json()))
            }
            Form::Metadata(meta) if self.is_protobuf() => {
                let metadata = ListMeta {
                    resource_version: Some(listed.revision.to_string()),
                    continue_: listed.next.clone(),
                    remaining_item_count: listed
                        .remaining
                        .and_then(|remaining| i64::try_from(remaining).ok()),
                    ..ListMeta::default()
                };
                let items = items.map(|item| item.clone().decoded());
                let items = items.collect::<Result<Vec<_>, _>>()?;
                let items = items.iter().map(|item| item.metadata());
                Ok(protobuf::partial_list(&metadata, items, meta.api_version()))
            }
            Form::Metadata(meta) => {
                let head = json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": meta.api_version(),
                    "metadata": metadata,
                });
                with_array(&head, "items", items.map(|item| partial(item.as_ref(), meta)))
            }
            Form::Table(include, meta) => {
                let rows = items.map(|item| self.row(item, include, meta));
                self.table(meta, &metadata, rows, true)
            }
        }
    }

    /// Writes one event of a watch: a line of JSON, or a frame of protobuf. The first one of a table has the
    /// definitions of the columns.
    pub(crate) fn event(&self, event: &WatchEvent, first: bool, line: &mut BytesMut) -> Result<(), ApiError> {
        let object = match self.form {
            Form::Table(include, meta) => self.table_of_one(&event.item, include, meta, first)?,
            _ => self.object(&event.item)?,
        };
        let event_type = match event.event_type {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        };
        put_event(self.encoding, line, event_type, object);
        Ok(())
    }

    /// Writes a bookmark: nothing else happened up to that revision. An `initial` one marks the end of the
    /// state at the start.
    pub(crate) fn bookmark(&self, revision: i64, initial: bool, line: &mut BytesMut) -> Result<(), ApiError> {
        if let (Form::Metadata(meta), true) = (self.form, self.is_protobuf()) {
            let mark = || [("k8s.io/initial-events-end".to_owned(), "true".to_owned())].into();
            let metadata = ObjectMeta {
                resource_version: Some(revision.to_string()),
                annotations: initial.then(mark),
                ..ObjectMeta::default()
            };
            put_event(self.encoding, line, "BOOKMARK", protobuf::partial(&metadata, meta.api_version()));
            return Ok(());
        }
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial && let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("annotations".to_owned(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let name = self.resource.name();
        let object = match self.form {
            Form::Object => {
                json(&json!({"kind": name.kind, "apiVersion": name.api_version(), "metadata": metadata}))?
            }
            Form::Metadata(meta) => json(&partial_of(&metadata, meta))?,
            // As upstream: the mark is in the row's object, if there is one.
            Form::Table(_, meta) => {
                let cells = vec![Value::from(""); self.resource.columns().len() + 2];
                let row = json(&json!({"cells": cells, "object": partial_of(&metadata, meta)}));
                let metadata = list_metadata(Some(revision.to_string()), None, None);
                self.table(meta, &metadata, std::iter::once(row), false)?
            }
        };
        put_event(self.encoding, line, "BOOKMARK", object);
        Ok(())
    }

    fn is_protobuf(&self) -> bool {
        self.encoding == Encoding::Protobuf
    }

    fn row(
        &self,
        item: &Arc<dyn Item>,
        include: IncludeObject,
        meta: MetaVersion,
    ) -> Result<Bytes, ApiError> {
        let object = match include {
            IncludeObject::None => Bytes::from_static(b"null"),
            IncludeObject::Metadata => partial(item.as_ref(), meta)?,
            IncludeObject::Object => item.json()?,
        };
        let cells = table::cells(self.resource, item.clone().decoded()?.as_ref(), self.now);
        with_field(&json!({ "cells": cells }), "object", &object)
    }

    fn table(
        &self,
        meta: MetaVersion,
        metadata: &Value,
        rows: impl Iterator<Item = Result<Bytes, ApiError>>,
        with_columns: bool,
    ) -> Result<Bytes, ApiError> {
        let columns =
            if with_columns { table::column_definitions(self.resource.columns()) } else { Value::Null };
        let head = json!({
            "kind": "Table",
            "apiVersion": meta.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
        });
        with_array(&head, "rows", rows)
    }

    fn table_of_one(
        &self,
        item: &Arc<dyn Item>,
        include: IncludeObject,
        meta: MetaVersion,
        with_columns: bool,
    ) -> Result<Bytes, ApiError> {
        let version = item.clone().decoded()?.metadata().resource_version.clone();
        let row = self.row(item, include, meta);
        self.table(meta, &list_metadata(version, None, None), std::iter::once(row), with_columns)
    }
}

/// An event of type `ERROR` with a `metav1.Status`.
pub(crate) fn error_event(encoding: Encoding, status: &Status) -> Result<Bytes, ApiError> {
    let mut line = BytesMut::new();
    let object = if encoding == Encoding::Protobuf { protobuf::status(status) } else { json(status)? };
    put_event(encoding, &mut line, "ERROR", object);
    Ok(line.freeze())
}

/// JSON of a value.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<Bytes, ApiError> {
    let json =
        serde_json::to_vec(value).map_err(|source| ApiError::internal("encoding the answer", source))?;
    Ok(json.into())
}

fn put_event(encoding: Encoding, line: &mut BytesMut, event_type: &str, object: Bytes) {
    if encoding == Encoding::Protobuf {
        return protobuf::put_event(line, event_type, object);
    }
    line.reserve(object.len() + 40);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(event_type.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put(object);
    line.put_slice(b"}\n");
}

fn partial(item: &dyn Item, meta: MetaVersion) -> Result<Bytes, ApiError> {
    let head = json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version()});
    with_field(&head, "metadata", &item.metadata_json()?)
}

fn partial_of(metadata: &Value, meta: MetaVersion) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": metadata})
}

fn list_metadata(version: Option<String>, next: Option<&str>, remaining: Option<usize>) -> Value {
    let mut metadata = Map::new();
    if let Some(version) = version {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    if let Some(next) = next {
        metadata.insert("continue".to_owned(), next.into());
    }
    if let Some(remaining) = remaining.filter(|remaining| *remaining > 0) {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    metadata.into()
}

/// Returns an object with one more field, whose JSON exists. It is copied and not encoded again.
fn with_field(head: &Value, field: &str, value: &[u8]) -> Result<Bytes, ApiError> {
    let head = json(head)?;
    let mut object = BytesMut::with_capacity(head.len() + field.len() + value.len() + 8);
    put_start(&mut object, &head, field);
    object.put_slice(value);
    object.put_u8(b'}');
    Ok(object.freeze())
}

/// Returns an object with one more field, an array of items whose JSON exists.
fn with_array(
    head: &Value,
    field: &str,
    items: impl Iterator<Item = Result<Bytes, ApiError>>,
) -> Result<Bytes, ApiError> {
    let items: Vec<Bytes> = items.collect::<Result<_, _>>()?;
    let head = json(head)?;
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut list = BytesMut::with_capacity(head.len() + field.len() + size + 8);
    put_start(&mut list, &head, field);
    list.put_u8(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            list.put_u8(b',');
        }
        list.put_slice(item);
    }
    list.put_slice(b"]}");
    Ok(list.freeze())
}

/// Writes an object that has fields, up to the value of another field.
fn put_start(out: &mut BytesMut, object: &[u8], field: &str) {
    out.put_slice(object.strip_suffix(b"}").unwrap_or(object));
    out.put_slice(b",\"");
    out.put_slice(field.as_bytes());
    out.put_slice(b"\":");
}
