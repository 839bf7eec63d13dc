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
    let held = json!({"name": "a", "finalizers": ["example.com/hold"]});
    let plain = json!({"name": "a"});
    let north = json!({"depot": "north"});
    let case = |name, requests: Vec<Request>| Case { name, requests };
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
            "a finalizer without a domain is warned of",
            vec![create(&json!({"name": "a", "finalizers": ["nodomain"]}), &north)],
        ),
        case(
            "empty labels are neither stored nor owned",
            vec![create(&json!({"name": "a", "labels": {}}), &north), Request::new(Method::GET, "/a")],
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
            "an apply that conflicts has the causes alone in its details",
            vec![create(&plain, &north), apply("one", &json!({"depot": "south"}))],
        ),
        case(
            "a wrong option is refused in the name of its kind",
            vec![create(&plain, &north).query(vec![("dryRun", "Some".to_owned())])],
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

fn create(metadata: &Value, spec: &Value) -> Request {
    Request::new(Method::POST, "").body(JSON, object(metadata, spec).to_string())
}

fn apply(manager: &str, spec: &Value) -> Request {
    let configuration = object(&json!({"name": "a"}), spec);
    let request = Request::new(Method::PATCH, "/a").query(vec![("fieldManager", manager.to_owned())]);
    request.body(APPLY, configuration.to_string())
}

fn object(metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Fleet", "metadata": metadata, "spec": spec})
}
