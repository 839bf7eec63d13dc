//! Sequences that failed once, each with the sentence that it proves.

use http::Method;
use serde_json::{Value, json};

use crate::{GROUP, Request};

/// A sequence with a name.
#[derive(Debug)]
pub struct Case {
    /// The sentence that it proves.
    pub name: &'static str,
    /// The requests.
    pub requests: Vec<Request>,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    [creations(), updates(), applies(), scales()].into_iter().flatten().collect()
}

/// Creations.
fn creations() -> Vec<Case> {
    let plain = json!({"name": "a"});
    let north = json!({"depot": "north"});
    vec![
        case(
            "bounds, patterns and repeated entries are causes",
            vec![create(&plain, &json!({"depot": "", "replicas": -1, "code": "abc", "zones": ["z", "z"]}))],
        ),
        case(
            "mistakes of the metadata are reported together with those of the content",
            vec![create(&json!({"name": "a", "labels": {"a": "not valid"}}), &json!({"depot": 5}))],
        ),
        case(
            "an unknown field is warned of although another field is wrong",
            vec![create(&plain, &json!({"depot": 5, "horn": 1}))],
        ),
        case(
            "an object that is refused is not warned of its finalizers",
            vec![create(&json!({"finalizers": ["nodomain"]}), &north)],
        ),
        case(
            "a finalizer without a domain is warned of",
            vec![create(&json!({"name": "a", "finalizers": ["nodomain"]}), &north)],
        ),
        case(
            "a word that YAML 1.1 takes for a boolean is a text",
            vec![Request::new(Method::POST, "").body(
                "application/yaml",
                format!("apiVersion: {GROUP}/v1\nkind: Fleet\nmetadata: {{name: a}}\nspec: {{depot: north, paused: yes}}"),
            )],
        ),
        case(
            "empty labels are neither stored nor owned",
            vec![create(&json!({"name": "a", "labels": {}}), &north), Request::new(Method::GET, "/a")],
        ),
        case(
            "a wrong option is refused in the name of its kind",
            vec![create(&plain, &north).query(vec![("dryRun", "Some".to_owned())])],
        ),
        case(
            "a creation without a name is refused for that, whatever version it names",
            vec![create(&json!({"resourceVersion": "1"}), &north)],
        ),
        case(
            "a media type that is not served is refused before the options of a creation",
            vec![by(&"m".repeat(129), Request::new(Method::POST, "")).body("text/plain", "{")],
        ),
        case(
            "an object without metadata has no name, whatever else is wrong",
            vec![
                Request::new(Method::POST, "").body(
                    JSON,
                    format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"Fleet","spec":{{"depot":5}}}}"#),
                ),
            ],
        ),
        case(
            "a name that is taken is taken, with a prefix and without",
            vec![create(&plain, &north), create(&json!({"name": "a", "generateName": "g-"}), &north)],
        ),
    ]
}

/// Updates, patches and deletions.
fn updates() -> Vec<Case> {
    let held = json!({"name": "a", "finalizers": ["example.com/hold"]});
    let plain = json!({"name": "a"});
    let north = json!({"depot": "north"});
    vec![
        case(
            "a deletion of many shows the objects as they were before",
            vec![create(&held, &north), Request::new(Method::DELETE, "")],
        ),
        case(
            "a name whose object is being deleted is taken, and the message says why",
            vec![create(&held, &north), Request::new(Method::DELETE, "/a"), create(&plain, &north)],
        ),
        case(
            "a patch of another name is refused before its content is checked",
            vec![
                create(&plain, &north),
                Request::new(Method::PATCH, "/a")
                    .body(MERGE, r#"{"metadata":{"name":"z"},"spec":{"depot":5}}"#),
            ],
        ),
        case(
            "a field that a patch has twice is warned of although the name is another",
            vec![create(&plain, &north), merge("/a", r#"{"metadata":{"name":"a","name":"b"}}"#)],
        ),
        case(
            "an unknown field in a patch is warned of although another field is wrong",
            vec![
                create(&plain, &north),
                merge("/a", r#"{"spec":{"replicas":"three","vehicles":{"name":"v1"}}}"#),
            ],
        ),
        case(
            "all problems of the options of a deletion are causes",
            vec![
                Request::new(Method::DELETE, "/a")
                    .query(vec![("dryRun", "x".to_owned()), ("propagationPolicy", "Nobody".to_owned())]),
            ],
        ),
        case(
            "labels and UID in a write of the status do not matter",
            vec![
                create(&plain, &north),
                merge(
                    "/a/status",
                    r#"{"metadata":{"uid":"x","labels":{"a":"not valid"}},"status":{"phase":"x"}}"#,
                ),
                merge(
                    "/a/status",
                    r#"{"metadata":{"labels":{"a":"not valid"}},"status":{"conditions":[{"type":"x"}]}}"#,
                ),
                by("one", Request::new(Method::PATCH, "/a/status")).body(
                    APPLY,
                    json!({
                        "apiVersion": format!("{GROUP}/v1"), "kind": "Fleet",
                        "metadata": {"name": "a", "uid": "x"}, "status": {"replicas": 4},
                    })
                    .to_string(),
                ),
            ],
        ),
        case(
            "a change of the metadata that is not allowed is reported together with the content",
            vec![
                create(&plain, &north),
                merge("/a", r#"{"metadata":{"deletionGracePeriodSeconds":5},"spec":{"depot":5}}"#),
                Request::new(Method::DELETE, "/a"),
                create(&held, &north),
                Request::new(Method::DELETE, "/a"),
                merge("/a", r#"{"metadata":{"finalizers":["example.com/new"]},"spec":{"depot":5}}"#),
                Request::new(Method::PUT, "/a").body(
                    JSON,
                    object(
                        &json!({"name": "a", "resourceVersion": "{{rv a}}", "finalizers": ["example.com/new"]}),
                        &json!({"depot": 5}),
                    )
                    .to_string(),
                ),
            ],
        ),
        case(
            "an object that an update releases is shown in its last version",
            vec![
                create(&held, &north),
                Request::new(Method::DELETE, "/a"),
                Request::new(Method::PATCH, "/a").body(MERGE, r#"{"metadata":{"finalizers":null}}"#),
            ],
        ),
    ]
}

/// Server-side apply.
fn applies() -> Vec<Case> {
    let plain = json!({"name": "a"});
    let north = json!({"depot": "north"});
    let owned = json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]});
    vec![
        case(
            "an apply that conflicts has the causes alone in its details",
            vec![create(&plain, &north), apply("one", &json!({"depot": "south"}))],
        ),
        case(
            "a conflict is reported before an owner without a UID",
            vec![create(&plain, &north), apply_with("two", &owned, &json!({"depot": "south"}))],
        ),
        case(
            "an owner without a UID is refused by its field",
            vec![create(&plain, &north), apply_with("two", &owned, &north)],
        ),
        case(
            "a conflict is reported without the fields that the configuration has twice",
            vec![
                create(&plain, &north),
                by("one", Request::new(Method::PATCH, "/a"))
                    .body(APPLY, twice("spec", r#"{"depot":"south"}"#)),
            ],
        ),
        case(
            "fields that a configuration has twice are reported before its name",
            vec![
                by("one", Request::new(Method::PATCH, "/b"))
                    .body(APPLY, twice("spec", r#"{"depot":"south"}"#)),
            ],
        ),
        case(
            "a UID in a new configuration is reported after a field of the wrong type",
            vec![apply_with(
                "one",
                &json!({"name": "a", "uid": "x"}),
                &json!({"depot": "north", "colours": {"door": 1}}),
            )],
        ),
        case(
            "a dry run of an apply that creates",
            vec![
                apply_with("one", &json!({"name": "a", "resourceVersion": "1"}), &north)
                    .query(vec![("dryRun", "All".to_owned())]),
            ],
        ),
    ]
}

/// The subresource `scale`.
fn scales() -> Vec<Case> {
    let plain = json!({"name": "a"});
    let north = json!({"depot": "north"});
    vec![
        case(
            "a scale is read, replaced and patched",
            vec![
                create(&plain, &north),
                Request::new(Method::GET, "/a/scale"),
                scale(3),
                merge("/a/scale", r#"{"spec":{"replicas":4,"depot":"south"}}"#),
                Request::new(Method::GET, "/a/scale"),
            ],
        ),
        case(
            "a number of replicas that the object may not have is refused",
            vec![create(&plain, &north), scale(1001), scale(-1)],
        ),
        case(
            "a negative number of replicas in the status is refused",
            vec![create(&plain, &north), merge("/a/status", r#"{"status":{"replicas":-1}}"#)],
        ),
        case(
            "the scale of an object that does not exist is not made by an apply",
            vec![by("one", Request::new(Method::PATCH, "/a/scale")).body(APPLY, scale_of(3).to_string())],
        ),
    ]
}

fn case(name: &'static str, requests: Vec<Request>) -> Case {
    Case { name, requests }
}

fn create(metadata: &Value, spec: &Value) -> Request {
    Request::new(Method::POST, "").body(JSON, object(metadata, spec).to_string())
}

fn apply(manager: &str, spec: &Value) -> Request {
    apply_with(manager, &json!({"name": "a"}), spec)
}

fn apply_with(manager: &str, metadata: &Value, spec: &Value) -> Request {
    by(manager, Request::new(Method::PATCH, "/a")).body(APPLY, object(metadata, spec).to_string())
}

fn by(manager: &str, request: Request) -> Request {
    request.query(vec![("fieldManager", manager.to_owned())])
}

fn merge(path: &str, change: &str) -> Request {
    Request::new(Method::PATCH, path).body(MERGE, change)
}

/// A fleet that has a field twice.
fn twice(field: &str, second: &str) -> String {
    let object = object(&json!({"name": "a"}), &json!({"depot": "north"})).to_string();
    let end = object.trim_end_matches('}').len() + 1;
    format!("{},\"{field}\":{second}}}", object.get(..end).unwrap_or_default())
}

fn scale(replicas: i64) -> Request {
    Request::new(Method::PUT, "/a/scale").body(JSON, scale_of(replicas).to_string())
}

fn scale_of(replicas: i64) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas},
    })
}

fn object(metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Fleet", "metadata": metadata, "spec": spec})
}
