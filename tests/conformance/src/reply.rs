//! Replies, without what differs between any two servers: times, UIDs, resourceVersions, generated names.

use std::collections::HashMap;

use serde_json::{Value, json};

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub code: u16,
    /// The headers that are compared.
    pub headers: Value,
    /// The body: an object, the events of a watch as a list, or a text.
    pub body: Value,
}

/// Names by which UIDs, resourceVersions and generated names are compared: their numbers in the order in
/// which a side showed them.
#[derive(Default)]
pub(crate) struct Names {
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
    generated: HashMap<String, String>,
}

/// Headers that are compared.
const HEADERS: [&str; 3] = ["content-type", "warning", "retry-after"];

impl Reply {
    /// Reads a reply.
    pub(crate) fn parse(head: &http::response::Parts, text: &str, watch: bool) -> Self {
        let values = |name: &str| -> Vec<String> {
            head.headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect()
        };
        let headers: Vec<(&str, Vec<String>)> = HEADERS.iter().map(|name| (*name, values(name))).collect();
        let headers = headers.into_iter().filter(|(_, values)| !values.is_empty());
        let headers: serde_json::Map<String, Value> =
            headers.map(|(name, values)| (name.to_owned(), json!(values))).collect();
        Self {
            code: head.status.as_u16(),
            headers: Value::Object(headers),
            body: parse_body(text, watch && head.status.is_success()),
        }
    }

    /// Returns true when the request was carried out.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Replaces the values that differ between any two servers.
    pub(crate) fn normalised(mut self, names: &mut Names) -> Self {
        names.object(&mut self.body);
        names.texts(&mut self.body);
        names.texts(&mut self.headers);
        sort_causes(&mut self.body);
        self
    }
}

/// Returns the body as JSON: also of YAML, and of the lines of a watch.
fn parse_body(text: &str, watch: bool) -> Value {
    if !watch && let Ok(value) = serde_json::from_str(text) {
        return value;
    }
    let lines: Result<Vec<Value>, _> =
        text.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect();
    if let Ok(lines) = lines {
        let events = lines.into_iter().filter(|event| !is_bookmark(event)).collect();
        return Value::Array(sort_deletions(events));
    }
    match serde_saphyr::from_str::<Value>(text) {
        Ok(value) if value.is_object() => value,
        _ => Value::String(text.to_owned()),
    }
}

/// Sorts deletions that follow each other: the machinery deletes several objects of a collection at once.
fn sort_deletions(mut events: Vec<Value>) -> Vec<Value> {
    let deleted = |event: &Value| event.get("type") == Some(&json!("DELETED"));
    for run in events.chunk_by_mut(|one, other| deleted(one) && deleted(other)) {
        let name = |event: &Value| {
            let name = event.pointer("/object/metadata/name").or(event.pointer("/object/rows/0/cells/0"));
            name.map(Value::to_string)
        };
        run.sort_by_key(name);
    }
    events
}

/// Returns true for a bookmark that comes by the clock. The one that ends the initial events is compared.
fn is_bookmark(event: &Value) -> bool {
    event.get("type") == Some(&json!("BOOKMARK"))
        && event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_none()
}

/// Version of a bookmark.
const LAST_WRITE: &str = "last-write";

/// Hides the versions in a bookmark. They are those of the kind's last write, also in other namespaces, and
/// do not count among the versions of the objects.
fn hide_versions(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(hide_versions),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "resourceVersion" if field.as_str().is_some_and(|version| !version.is_empty()) => {
                        *field = json!(LAST_WRITE);
                    }
                    _ => hide_versions(field),
                }
            }
        }
        _ => {}
    }
}

fn number(names: &mut HashMap<String, String>, value: &str, prefix: &str) -> String {
    let next = names.len();
    names.entry(value.to_owned()).or_insert_with(|| format!("{prefix}{next}")).clone()
}

impl Names {
    /// Replaces values by their places in an object, a list, an event or a table.
    fn object(&mut self, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.object(value)),
            Value::Object(fields) => {
                let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
                let list = kind.ends_with("List") || kind == "Table";
                let bookmark = fields.get("type") == Some(&json!("BOOKMARK"));
                if kind == "Table" {
                    hide_ages(fields);
                }
                for (name, field) in fields.iter_mut() {
                    match name.as_str() {
                        "metadata" => self.metadata(field, list),
                        "uid" => self.uid(field),
                        "items" | "rows" | "details" => self.object(field),
                        "object" => {
                            if bookmark {
                                hide_versions(field);
                            }
                            self.object(field);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn metadata(&mut self, metadata: &mut Value, list: bool) {
        let Some(fields) = metadata.as_object_mut() else { return };
        if let (Some(Value::String(prefix)), Some(Value::String(name))) =
            (fields.get("generateName"), fields.get("name"))
            && name.starts_with(prefix.as_str())
        {
            number(&mut self.generated, name, &format!("{prefix}generated-"));
        }
        for (name, field) in fields.iter_mut() {
            match (name.as_str(), &*field) {
                ("creationTimestamp" | "deletionTimestamp", Value::String(_)) => *field = json!("time"),
                ("continue", Value::String(token)) if !token.is_empty() => *field = json!("token"),
                ("resourceVersion", Value::String(version))
                    if !version.is_empty() && version != LAST_WRITE =>
                {
                    *field = json!(if list {
                        "list".to_owned()
                    } else {
                        number(&mut self.versions, version, "version-")
                    });
                }
                ("uid", _) => self.uid(field),
                ("managedFields", Value::Array(_)) => {
                    for entry in field.as_array_mut().into_iter().flatten() {
                        if let Some(time) = entry.get_mut("time") {
                            *time = json!("time");
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn uid(&mut self, value: &mut Value) {
        if let Value::String(uid) = value
            && !uid.is_empty()
        {
            *value = json!(number(&mut self.uids, uid, "uid-"));
        }
    }

    /// Replaces known values inside of texts.
    fn texts(&self, value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(|value| self.texts(value)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.texts(value)),
            Value::String(text) => {
                for (known, name) in self.uids.iter().chain(&self.generated) {
                    if text.contains(known.as_str()) {
                        *text = text.replace(known.as_str(), name);
                    }
                }
                if text.contains("ResourceVersion") || text.contains("resource version") {
                    *text = self.versions_in(text);
                }
            }
            _ => {}
        }
    }

    /// Replaces each number in a text that is a known version.
    fn versions_in(&self, text: &str) -> String {
        let mut replaced = String::new();
        let mut digits = String::new();
        for letter in text.chars().chain([' ']) {
            if letter.is_ascii_digit() {
                digits.push(letter);
                continue;
            }
            replaced.push_str(self.versions.get(&digits).unwrap_or(&digits));
            digits.clear();
            replaced.push(letter);
        }
        replaced.pop();
        replaced
    }
}

/// Sorts the causes of a failure, which come from maps, in the details and in the message.
fn sort_causes(body: &mut Value) {
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let causes = body.pointer_mut("/details/causes").and_then(Value::as_array_mut);
    let Some(causes) = causes.filter(|causes| causes.len() > 1) else { return };
    let all = |causes: &[Value]| -> String {
        let texts: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
            .collect();
        texts.join(", ")
    };
    let before = all(causes);
    causes.sort_by_key(|cause| (text(cause, "field"), text(cause, "message")));
    let after = all(causes);
    if let Some(Value::String(message)) = body.get_mut("message") {
        *message = message.replace(&before, &after);
    }
}

/// Hides the cells of the column Age of a table.
fn hide_ages(table: &mut serde_json::Map<String, Value>) {
    let columns = table.get("columnDefinitions").and_then(Value::as_array);
    let age = columns
        .and_then(|columns| columns.iter().position(|column| column.get("name") == Some(&json!("Age"))));
    let rows = table.get_mut("rows").and_then(Value::as_array_mut);
    for row in rows.into_iter().flatten() {
        if let Some(cell) = age.and_then(|age| row.get_mut("cells")?.get_mut(age)) {
            *cell = json!("age");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(names: &mut Names, body: Value) -> Value {
        Reply { code: 200, headers: json!({}), body }.normalised(names).body
    }

    #[test]
    fn values_are_compared_by_their_order_and_lists_by_none() {
        let mut names = Names::default();
        let object = json!({"metadata": {"uid": "x", "resourceVersion": "5", "creationTimestamp": "now"}});
        let expected = json!({"metadata": {"uid": "uid-0", "resourceVersion": "version-0", "creationTimestamp": "time"}});
        assert_eq!(normalised(&mut names, object.clone()), expected);
        let list = json!({"kind": "FleetList", "metadata": {"resourceVersion": "7"}, "items": [object]});
        let expected =
            json!({"kind": "FleetList", "metadata": {"resourceVersion": "list"}, "items": [expected]});
        assert_eq!(normalised(&mut names, list), expected);
        let status = json!({"kind": "Status", "message": "ResourceVersion 5 of x, not 55"});
        assert_eq!(normalised(&mut names, status)["message"], "ResourceVersion version-0 of uid-0, not 55");
    }

    #[test]
    fn the_version_of_a_bookmark_does_not_count_whoever_wrote_last() {
        let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
        let rows = json!([{"object": object("9")}]);
        for last in ["5", "9"] {
            let mut names = Names::default();
            normalised(&mut names, object("5"));
            let mut bookmark = object(last);
            bookmark["rows"] = rows.clone();
            let events = json!([{"type": "BOOKMARK", "object": bookmark}]);
            let shown = normalised(&mut names, events);
            assert_eq!(shown[0]["object"]["metadata"]["resourceVersion"], LAST_WRITE);
            assert_eq!(shown[0]["object"]["rows"][0]["object"]["metadata"]["resourceVersion"], LAST_WRITE);
            assert_eq!(normalised(&mut names, object("10")), object("version-1"), "{last}");
        }
    }

    #[test]
    fn a_generated_name_is_compared_by_its_prefix() {
        let mut names = Names::default();
        let object = json!({"metadata": {"generateName": "g-", "name": "g-abcde"}});
        assert_eq!(normalised(&mut names, object)["metadata"]["name"], "g-generated-0");
    }

    #[test]
    fn deletions_that_follow_each_other_come_in_any_order() {
        let event = |kind: &str, name: &str| json!({"type": kind, "object": {"metadata": {"name": name}}});
        let [b, a, new, last] =
            [event("DELETED", "b"), event("DELETED", "a"), event("ADDED", "b"), event("DELETED", "a")];
        let sorted = sort_deletions(vec![b.clone(), a.clone(), new.clone(), last.clone()]);
        assert_eq!(sorted, [a, b, new, last]);
    }

    #[test]
    fn the_lines_of_a_watch_are_a_list_without_the_bookmarks_of_the_clock() {
        let lines = "{\"type\":\"ADDED\"}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n{\"type\":\"DELETED\"}\n";
        assert_eq!(parse_body(lines, true), json!([{"type": "ADDED"}, {"type": "DELETED"}]));
        assert_eq!(parse_body("kind: Fleet\n", false), json!({"kind": "Fleet"}));
    }
}
