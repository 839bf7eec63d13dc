//! Events as lines of JSON.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use machinery_merge::parse_yaml;
use serde::Serialize;
use serde_json::Value;

use crate::{Body, Event, Level, ObjectReference, ResponseStatus, Stage, User};

/// An event in the form of the wire, in kube-apiserver's order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: Level,
    #[serde(rename = "auditID")]
    audit_id: &'a str,
    stage: Stage,
    #[serde(rename = "requestURI")]
    request_uri: &'a str,
    verb: &'a str,
    user: &'a User,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[String]>::is_empty")]
    source_ips: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<&'a ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<&'a ResponseStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

impl Event {
    /// Returns the event as a line of JSON, with its newline.
    ///
    /// A body that cannot be decoded is left out: a line must stay valid JSON.
    pub(crate) fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let object = |body: &Option<Body>| body.as_ref().and_then(|body| self.object(body));
        let wire = Wire {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: self.level,
            audit_id: &self.audit_id,
            stage: self.stage,
            request_uri: &self.request_uri,
            verb: &self.verb,
            user: &self.user,
            source_ips: &self.source_ips,
            user_agent: &self.user_agent,
            object_ref: self.object_ref.as_ref(),
            response_status: self.response_status.as_ref(),
            request_object: object(&self.request_object),
            response_object: object(&self.response_object),
            request_received_timestamp: micros(self.received),
            stage_timestamp: micros(self.at),
            annotations: &self.annotations,
        };
        let mut line = serde_json::to_vec(&wire)?;
        line.push(b'\n');
        Ok(line)
    }

    fn object(&self, body: &Body) -> Option<Value> {
        let mut value = match body {
            Body::Json(bytes) => serde_json::from_slice(bytes).ok()?,
            Body::Yaml(bytes) => parse_yaml(bytes).ok()?.value,
        };
        if self.omit_managed_fields {
            drop_managed_fields(&mut value);
        }
        Some(value)
    }
}

/// Removes the managed fields of an object, of the items of a list and of the rows of a table.
fn drop_managed_fields(object: &mut Value) {
    fn drop_own(object: &mut Value) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    drop_own(object);
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(drop_own);
    let rows = object.get_mut("rows").and_then(Value::as_array_mut);
    rows.into_iter().flatten().filter_map(|row| row.get_mut("object")).for_each(drop_own);
}

fn micros(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn written(event: &Event) -> Value {
        let line = event.line().expect("a line");
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        serde_json::from_slice(&line).expect("JSON")
    }

    #[test]
    fn an_event_is_one_line_without_empty_fields() {
        let body = "{\"metadata\":{\n\"managedFields\":[{}],\"name\":\"a\"}}";
        let event = Event {
            level: Level::Request,
            request_object: Some(Body::Json(Bytes::from_static(body.as_bytes()))),
            ..Event::default()
        };
        let expected = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "auditID": "",
            "stage": "RequestReceived", "requestURI": "", "verb": "", "user": {},
            "requestObject": {"metadata": {"managedFields": [{}], "name": "a"}},
            "requestReceivedTimestamp": "1970-01-01T00:00:00.000000Z",
            "stageTimestamp": "1970-01-01T00:00:00.000000Z",
        });
        assert_eq!(written(&event), expected);
    }

    #[test]
    fn managed_fields_are_left_out_of_objects_lists_and_tables_where_the_policy_says_so() {
        let managed = json!({"metadata": {"managedFields": [{}]}});
        for object in [managed.clone(), json!({"items": [managed]}), json!({"rows": [{"object": managed}]})] {
            let body = Some(Body::Json(object.to_string().into()));
            let event = Event { response_object: body, omit_managed_fields: true, ..Event::default() };
            assert!(!written(&event).to_string().contains("managedFields"), "{object}");
        }
    }

    #[test]
    fn yaml_is_recorded_as_json_and_what_cannot_be_decoded_is_left_out() {
        let yaml = Some(Body::Yaml(Bytes::from_static(b"spec:\n  dish: soup\n")));
        let broken = Some(Body::Json(Bytes::from_static(b"{")));
        let event = Event { request_object: yaml, response_object: broken, ..Event::default() };
        let written = written(&event);
        assert_eq!(written["requestObject"], json!({"spec": {"dish": "soup"}}));
        assert!(written.get("responseObject").is_none());
    }
}
