//! Rendering of objects, lists and watch events in the form that the caller asked for.

use bytes::{BufMut, Bytes, BytesMut};
use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta, Status};
use serde_json::{Map, Value, json};

use super::{
    accept::{Form, IncludeObject, MetaVersion},
    encoding::Encoding,
};
use crate::{
    ApiError, protobuf,
    registry::{EventType, Listed, WatchEvent},
    resource::Resource,
    stored::Item,
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
    pub(crate) fn object(&self, item: &dyn Item) -> Result<Bytes, ApiError> {
        match self.form {
            Form::Object => item.json(),
            Form::Metadata(meta) if self.is_protobuf() => {
                Ok(protobuf::partial(item.metadata(), meta.api_version()))
            }
            Form::Metadata(meta) => json(&partial(item, meta)),
            Form::Table(include, meta) => {
                let version = item.metadata().resource_version.clone();
                let rows = [self.row(item, include, meta)?];
                json(&self.table(meta, &list_metadata(version, None, None), &rows, true))
            }
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
                whole_list(&head, items.map(|item| item.json()))
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
                let items = items.map(|item| item.metadata());
                Ok(protobuf::partial_list(&metadata, items, meta.api_version()))
            }
            Form::Metadata(meta) => {
                let head = json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": meta.api_version(),
                    "metadata": metadata,
                });
                whole_list(&head, items.map(|item| json(&partial(item.as_ref(), meta))))
            }
            Form::Table(include, meta) => {
                let rows: Result<Vec<Value>, ApiError> =
                    items.map(|item| self.row(item.as_ref(), include, meta)).collect();
                json(&self.table(meta, &metadata, &rows?, true))
            }
        }
    }

    /// Writes one event of a watch: a line of JSON, or a frame of protobuf. The first one of a table has the
    /// definitions of the columns.
    pub(crate) fn event(&self, event: &WatchEvent, first: bool, line: &mut BytesMut) -> Result<(), ApiError> {
        let object = match self.form {
            Form::Table(include, meta) => {
                let version = event.item.metadata().resource_version.clone();
                let rows = [self.row(event.item.as_ref(), include, meta)?];
                json(&self.table(meta, &list_metadata(version, None, None), &rows, first))?
            }
            _ => self.object(event.item.as_ref())?,
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
                json!({"kind": name.kind, "apiVersion": name.api_version(), "metadata": metadata})
            }
            Form::Metadata(meta) => partial_of(&metadata, meta),
            // As upstream: the mark is in the row's object, if there is one.
            Form::Table(_, meta) => {
                let object = partial_of(&metadata, meta);
                let cells = vec![Value::from(""); self.resource.columns().len() + 2];
                let rows = [json!({"cells": cells, "object": object})];
                self.table(meta, &list_metadata(Some(revision.to_string()), None, None), &rows, false)
            }
        };
        put_event(self.encoding, line, "BOOKMARK", json(&object)?);
        Ok(())
    }

    fn is_protobuf(&self) -> bool {
        self.encoding == Encoding::Protobuf
    }

    fn row(&self, item: &dyn Item, include: IncludeObject, meta: MetaVersion) -> Result<Value, ApiError> {
        let object = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(item, meta),
            IncludeObject::Object => serde_json::from_slice(&item.json()?)
                .map_err(|source| ApiError::internal("encoding a row of a table", source))?,
        };
        Ok(json!({"cells": table::cells(self.resource, item, self.now), "object": object}))
    }

    fn table(&self, meta: MetaVersion, metadata: &Value, rows: &[Value], with_columns: bool) -> Value {
        let columns =
            if with_columns { table::column_definitions(self.resource.columns()) } else { Value::Null };
        json!({
            "kind": "Table",
            "apiVersion": meta.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
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

fn partial(item: &dyn Item, meta: MetaVersion) -> Value {
    partial_of(&json!(item.metadata()), meta)
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

/// Returns a list of items whose bytes exist. The bytes are copied and not encoded again.
fn whole_list(head: &Value, items: impl Iterator<Item = Result<Bytes, ApiError>>) -> Result<Bytes, ApiError> {
    let items: Vec<Bytes> = items.collect::<Result<_, _>>()?;
    let head = json(head)?;
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut list = BytesMut::with_capacity(head.len() + size + 16);
    list.put_slice(head.strip_suffix(b"}").unwrap_or(&head));
    list.put_slice(b",\"items\":[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            list.put_u8(b',');
        }
        list.put_slice(item);
    }
    list.put_slice(b"]}");
    Ok(list.freeze())
}
