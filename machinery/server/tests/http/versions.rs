use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use machinery_server::{
    Admission, AdmissionAttributes, ApiError, Interception, MutableObject, Reason, Registry, RequestContext,
};
use machinery_storage::{Operation, Store, Transaction};
use serde_json::{Value, json};

use crate::support::{KettleServer, KettleStrategy, embedded, revision};

const V1: &str = "/apis/kettles.dev/v1/namespaces/n/kettles";
const V2: &str = "/apis/kettles.dev/v2/namespaces/n/kettles";
const A1: &str = "/apis/kettles.dev/v1/namespaces/n/kettles/a";
const A2: &str = "/apis/kettles.dev/v2/namespaces/n/kettles/a";
const KEY: &str = "/registry/kettles.dev/kettles/n/a";
const WHISTLE: &str = "kettles.dev/whistle";

/// A server that stores kettles in that version; in the hub, which is v2, for none.
async fn open(store: &Arc<dyn Store>, stored: Option<&'static str>) -> KettleServer {
    KettleServer::open(store.clone(), KettleStrategy { stored, serves_v1: true }).await
}

async fn store() -> (Arc<dyn Store>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    (embedded(&folder).await, folder)
}

fn kettle(version: &str, spec: &Value) -> Value {
    let api_version = format!("kettles.dev/{version}");
    json!({"apiVersion": api_version, "kind": "Kettle", "metadata": {"name": "a"}, "spec": spec})
}

/// The stored object under a key.
async fn stored(store: &Arc<dyn Store>, key: &str) -> Value {
    let found = store.get(key).await.expect("an answer").found.expect("an object");
    serde_json::from_slice(&found.value).expect("JSON")
}

#[tokio::test]
async fn an_object_is_read_in_each_version_whichever_it_was_created_in() {
    let (store, _folder) = store().await;
    let server = open(&store, None).await;
    let client = &server.client;
    let created = client.post(V1, &kettle("v1", &json!({"millilitres": 2000}))).await.expect(201);
    assert_eq!(
        (&created["apiVersion"], &created["spec"]),
        (&json!("kettles.dev/v1"), &json!({"millilitres": 2000}))
    );
    let read = client.get(A2).await.expect(200);
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("kettles.dev/v2"), &json!({"litres": 2})));
    assert_eq!(read["metadata"], created["metadata"]);
    assert_eq!(client.get(A1).await.expect(200), created);
    let list = client.get(V1).await.expect(200);
    assert_eq!((&list["apiVersion"], &list["items"][0]), (&json!("kettles.dev/v1"), &created));
    let refused = client.post(V1, &kettle("v2", &json!({"litres": 1}))).await.refused(400, "BadRequest");
    assert!(refused["message"].as_str().expect("text").contains("kettles.dev/v2"), "{refused}");
}

#[tokio::test]
async fn objects_are_not_stored_in_a_version_that_is_not_served() {
    let (store, _folder) = store().await;
    for (strategy, version) in [
        (KettleStrategy { stored: Some("v3"), serves_v1: true }, "v3"),
        (KettleStrategy { stored: Some("v1"), serves_v1: false }, "v1"),
    ] {
        let refused = KettleServer::build(&Registry::new(store.clone(), "/registry", strategy)).err();
        let text = refused.expect("an error").to_string();
        assert!(text.ends_with(&format!("is stored in version {version}, which is not served")), "{text}");
    }
}

#[tokio::test]
async fn a_watch_shows_changes_in_its_version_whichever_they_were_made_in() {
    let (store, _folder) = store().await;
    let server = open(&store, None).await;
    let client = &server.client;
    let created = client.post(V2, &kettle("v2", &json!({"litres": 1}))).await.expect(201);
    let mut watch = client.watch(&format!("{V1}?watch=true&resourceVersion={}", revision(&created))).await;
    client.merge(A2, &json!({"spec": {"litres": 3}})).await.expect(200);
    let event = watch.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["spec"]),
        (&json!("MODIFIED"), &json!({"millilitres": 3000}))
    );
    client.delete(A2).await.expect(200);
    let event = watch.next().await.expect("an event");
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"]),
        (&json!("DELETED"), &json!("kettles.dev/v1"))
    );
}

#[tokio::test]
async fn what_a_version_cannot_say_survives_an_update_in_it() {
    let (store, _folder) = store().await;
    let server = open(&store, None).await;
    let client = &server.client;
    client.post(V2, &kettle("v2", &json!({"litres": 1, "whistle": true}))).await.expect(201);
    let mut old = client.get(A1).await.expect(200);
    assert_eq!(old["metadata"]["annotations"], json!({WHISTLE: "true"}));
    old["spec"]["millilitres"] = 4000.into();
    client.put(A1, &old).await.expect(200);
    let read = client.get(A2).await.expect(200);
    assert_eq!(read["spec"], json!({"litres": 4, "whistle": true}));
    assert_eq!(read["metadata"].get("annotations"), None);
}

#[tokio::test]
async fn patches_and_the_rules_of_the_kind_apply_in_each_version() {
    let (store, _folder) = store().await;
    let server = open(&store, None).await;
    let client = &server.client;
    client.post(V2, &kettle("v2", &json!({"litres": 1}))).await.expect(201);
    let patch = json!([{"op": "replace", "path": "/spec/millilitres", "value": 5000}]);
    assert_eq!(client.json_patch(A1, &patch).await.expect(200)["spec"], json!({"millilitres": 5000}));
    assert_eq!(
        client.merge(A1, &json!({"spec": {"colour": "red"}})).await.expect(200)["spec"]["colour"],
        "red"
    );
    assert_eq!(client.get(A2).await.expect(200)["spec"], json!({"litres": 5, "colour": "red"}));
    let small = client.merge(A1, &json!({"spec": {"millilitres": 10}})).await.refused(422, "Invalid");
    assert!(small["message"].as_str().expect("text").contains("must hold a litre"), "{small}");
    let table = client.get_as(V1, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    assert_eq!(table["rows"][0]["cells"][1], 5, "{table}");
}

#[tokio::test]
async fn an_apply_follows_the_owners_of_other_versions() {
    let (store, _folder) = store().await;
    let server = open(&store, None).await;
    let client = &server.client;
    let apply = async |path: &str, manager: &str, configuration: &Value| {
        let headers = [("content-type", "application/apply-patch+yaml")];
        let path = format!("{path}?fieldManager={manager}");
        client.send("PATCH", &path, &headers, configuration.to_string().into()).await
    };
    let first = kettle("v1", &json!({"millilitres": 2000, "colour": "red"}));
    apply(A1, "flux", &first).await.expect(201);
    // Another manager must not take the litres of flux under their other name.
    let other = kettle("v2", &json!({"litres": 3}));
    let conflict = apply(A2, "chef", &other).await.refused(409, "Conflict");
    assert_eq!(conflict["details"]["causes"][0]["field"], ".spec.millilitres", "{conflict}");
    // What flux leaves out in its new version is removed.
    let applied = apply(A2, "flux", &kettle("v2", &json!({"litres": 2}))).await.expect(200);
    assert_eq!(applied["spec"], json!({"litres": 2}));
    let entries = applied["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 1, "{applied}");
    assert_eq!(entries[0]["apiVersion"], "kettles.dev/v2");
    assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {"f:litres": {}}}));
}

#[tokio::test]
async fn discovery_has_every_version_and_the_hash_of_the_stored_one() {
    let (store, _folder) = store().await;
    let server = open(&store, Some("v1")).await;
    let group = server.client.get("/apis/kettles.dev").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v2");
    assert_eq!(group["versions"].as_array().expect("versions").len(), 2);
    let mut hashes = Vec::new();
    for version in ["v1", "v2"] {
        let list = server.client.get(&format!("/apis/kettles.dev/{version}")).await.expect(200);
        hashes.push(list["resources"][0]["storageVersionHash"].clone());
        let document = server.client.get(&format!("/openapi/v3/apis/kettles.dev/{version}")).await;
        assert!(document.text().contains(if version == "v1" { "millilitres" } else { "whistle" }));
    }
    assert_eq!(hashes[0], hashes[1]);
    let other = KettleStrategy { stored: None, serves_v1: true };
    let other = KettleServer::open(store.clone(), other).await;
    let list = other.client.get("/apis/kettles.dev/v2").await.expect(200);
    assert_ne!(list["resources"][0]["storageVersionHash"], hashes[0]);
}

#[tokio::test]
async fn objects_of_an_older_stored_version_are_rewritten_when_touched_and_by_a_command() {
    let (store, _folder) = store().await;
    let server = open(&store, Some("v1")).await;
    for name in ["a", "b", "c"] {
        let mut object = kettle("v2", &json!({"litres": 1, "whistle": true}));
        object["metadata"]["name"] = name.into();
        server.client.post(V2, &object).await.expect(201);
    }
    let bytes = stored(&store, KEY).await;
    assert_eq!(
        (&bytes["apiVersion"], &bytes["spec"]),
        (&json!("kettles.dev/v1"), &json!({"millilitres": 1000}))
    );
    assert_eq!(bytes["metadata"].get("resourceVersion"), None);
    drop(server);

    let server = open(&store, Some("v2")).await;
    let client = &server.client;
    let read = client.get(A2).await.expect(200);
    assert_eq!(read["spec"], json!({"litres": 1, "whistle": true}));
    let same = client.put(A2, &read).await.expect(200);
    assert_ne!(revision(&same), revision(&read), "it was written, although nothing changed");
    assert_eq!(same["metadata"]["generation"], read["metadata"]["generation"]);
    assert_eq!(stored(&store, KEY).await["apiVersion"], "kettles.dev/v2");
    assert_eq!(revision(&client.put(A2, &same).await.expect(200)), revision(&same), "now nothing is written");

    let context = RequestContext::default();
    assert_eq!(server.kettles.rewrite_outdated(&context).await.expect("rewritten"), 2);
    assert_eq!(server.kettles.rewrite_outdated(&context).await.expect("nothing to do"), 0);
    drop(server);
    let only = KettleServer::open(store.clone(), KettleStrategy { stored: None, serves_v1: false }).await;
    let list = only.client.get(V2).await.expect(200);
    assert_eq!(list["items"].as_array().expect("items").len(), 3, "v1 is not needed any more");
    only.client.get(V1).await.expect(404);
}

#[tokio::test]
async fn an_object_of_a_version_that_is_not_served_is_reported_and_not_misread() {
    let (store, _folder) = store().await;
    let bytes = kettle("v0", &json!({"litres": 1})).to_string();
    let operations = vec![Operation::Put(KEY.to_owned(), bytes.into())];
    store.commit(Transaction { preconditions: Vec::new(), operations }).await.expect("written");
    let server = open(&store, None).await;
    server.client.get(A2).await.refused(500, "InternalError");
    let status = server.client.get(V2).await.refused(500, "StorageReadError");
    assert_eq!(status["details"]["causes"][0]["field"], "n/a", "{status}");
}

/// A plugin that knows v2 only: it doubles the litres, and refuses kettles of more than ten.
#[derive(Clone, Copy)]
struct Litres;

impl Admission for Litres {
    fn intercept(&self, _: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>> {
        Some(Box::new(*self))
    }
}

#[async_trait]
impl Interception for Litres {
    fn mutates(&self) -> bool {
        true
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut dyn MutableObject>,
        _: Option<&Value>,
    ) -> Result<(), ApiError> {
        let (Some(object), Some(converter)) = (object, attributes.converter) else { return Ok(()) };
        let mut changed = converter.convert(object.value(), attributes.version, "v2")?;
        changed["spec"]["litres"] = json!(changed["spec"]["litres"].as_i64().expect("litres") * 2);
        object.replace(converter.convert(&changed, "v2", attributes.version)?)
    }

    fn validates(&self) -> bool {
        true
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), ApiError> {
        let converter = attributes.converter.expect("versions");
        assert_eq!(converter.versions(), ["v2", "v1"]);
        assert!(converter.convert(&json!({}), attributes.version, "v3").is_err());
        let seen = converter.convert(object.expect("an object"), attributes.version, "v2")?;
        assert_eq!(seen["apiVersion"], "kettles.dev/v2");
        if seen["spec"]["litres"].as_i64() > Some(10) {
            return Err(ApiError::status(Reason::Forbidden, "too large"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_plugin_can_see_and_change_an_object_in_another_version_than_that_of_the_request() {
    let (store, _folder) = store().await;
    let strategy = KettleStrategy { stored: None, serves_v1: true };
    let server = KettleServer::admitting(store, strategy, Some(Arc::new(Litres))).await;
    let client = &server.client;
    let created = client.post(V1, &kettle("v1", &json!({"millilitres": 2000}))).await.expect(201);
    assert_eq!(created["spec"], json!({"millilitres": 4000}));
    assert_eq!(client.get(A2).await.expect(200)["spec"], json!({"litres": 4}));
    let large = json!({"spec": {"millilitres": 6000}});
    client.merge(A1, &large).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn a_plugin_for_another_version_sees_the_body_of_an_action() {
    let (store, _folder) = store().await;
    let strategy = KettleStrategy { stored: None, serves_v1: true };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = KettleServer::admitting(store, strategy, Some(Arc::new(Seen(seen.clone())))).await;
    let client = &server.client;
    client.post(V1, &kettle("v1", &json!({"millilitres": 2000}))).await.expect(201);
    seen.lock().expect("no panic").clear();
    let boiling = json!({"apiVersion": "kettles.dev/v2", "kind": "Boiling", "spec": {"minutes": 3}});
    client.post(&format!("{A1}/boil"), &boiling).await.expect(201);
    let seen = seen.lock().expect("no panic");
    let [(versions, body)] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(["v1", "v2"].iter().all(|version| versions.contains(&(*version).to_owned())), "{versions:?}");
    assert_eq!((&body["kind"], &body["spec"]), (&json!("Boiling"), &json!({"minutes": 3})));
}

/// Versions of each write, and its object in v2.
type Writes = Arc<Mutex<Vec<(Vec<String>, Value)>>>;

/// A plugin that writes down what it can see in v2.
struct Seen(Writes);

impl Admission for Seen {
    fn intercept(&self, _: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>> {
        Some(Box::new(Self(self.0.clone())))
    }
}

#[async_trait]
impl Interception for Seen {
    fn mutates(&self) -> bool {
        false
    }

    async fn mutate(
        &self,
        _: &AdmissionAttributes<'_>,
        _: Option<&mut dyn MutableObject>,
        _: Option<&Value>,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    fn validates(&self) -> bool {
        true
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), ApiError> {
        let converter = attributes.converter.expect("versions");
        let seen = converter.convert(object.expect("an object"), attributes.version, "v2")?;
        let versions = converter.versions().into_iter().map(str::to_owned).collect();
        self.0.lock().expect("no panic").push((versions, seen));
        Ok(())
    }
}
