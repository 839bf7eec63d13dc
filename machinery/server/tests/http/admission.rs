use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use machinery_server::{Admission, AdmissionAttributes, ApiError, Interception, MutableObject, Reason};
use serde_json::{Value, json};

use crate::support::{Kitchen, Setup, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

/// Change that a guard makes to each object.
type Change = Box<dyn Fn(&mut Value) + Send + Sync>;

/// One call of a guard.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    step: &'static str,
    operation: String,
    resource: String,
    name: String,
    dry_run: bool,
    object: Value,
    old: Value,
    options: Value,
}

/// A plugin that writes down its calls, changes every object, and denies those with the label `denied`.
#[derive(Default)]
struct Guard {
    change: Mutex<Option<Change>>,
    calls: Mutex<Vec<Call>>,
    looks: AtomicUsize,
    /// True when the guard intercepts nothing.
    idle: bool,
}

impl Guard {
    fn changing(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { change: Mutex::new(Some(Box::new(change))), ..Self::default() })
    }

    fn note(
        &self,
        step: &'static str,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let resource = match attributes.context.subresource.as_str() {
            "" => attributes.resource.to_owned(),
            subresource => format!("{}/{subresource}", attributes.resource),
        };
        let call = Call {
            step,
            operation: format!("{:?}", attributes.context.operation),
            resource,
            name: attributes.name.to_owned(),
            dry_run: attributes.context.dry_run,
            object: object.cloned().unwrap_or_default(),
            old: old.cloned().unwrap_or_default(),
            options: attributes.options.cloned().unwrap_or_default(),
        };
        self.calls.lock().expect("no panic").push(call);
        let denied = [object, old].into_iter().flatten();
        if denied.into_iter().any(|object| object.pointer("/metadata/labels/denied") == Some(&json!(step))) {
            return Err(ApiError::status(Reason::Forbidden, format!("{step} says no")));
        }
        Ok(())
    }

    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().expect("no panic"))
    }

    /// The steps, operations, resources and names of the calls.
    fn steps(&self) -> Vec<String> {
        let line = |call: &Call| format!("{} {} {} {}", call.step, call.operation, call.resource, call.name);
        self.calls().iter().map(line).collect()
    }
}

#[derive(Default)]
struct Guards(Arc<Guard>);

impl Admission for Guards {
    fn intercept(&self, _: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>> {
        self.0.looks.fetch_add(1, Ordering::Relaxed);
        (!self.0.idle).then(|| Box::new(Guards(self.0.clone())) as Box<dyn Interception>)
    }
}

#[async_trait]
impl Interception for Guards {
    fn mutates(&self) -> bool {
        true
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut dyn MutableObject>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        self.0.note("mutate", attributes, object.as_deref().map(MutableObject::value), old)?;
        let Some(object) = object else { return Ok(()) };
        let mut value = object.value().clone();
        if let Some(change) = &*self.0.change.lock().expect("no panic") {
            change(&mut value);
        }
        object.replace(value)
    }

    fn validates(&self) -> bool {
        true
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        self.0.note("validate", attributes, object, old)
    }
}

async fn guarded(guard: &Arc<Guard>) -> Kitchen {
    let admission = Some(Arc::new(Guards(guard.clone())) as Arc<dyn Admission>);
    Kitchen::with(Setup { admission, ..Setup::default() }).await
}

#[tokio::test]
async fn every_kind_of_write_is_mutated_first_and_validated_last() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let mut a = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    assert_eq!(guard.steps(), ["mutate Create pots a", "validate Create pots a"]);
    a["spec"]["servings"] = json!(3);
    client.put(A, &a).await.expect(200);
    client.merge(A, &json!({"spec": {"servings": 4}})).await.expect(200);
    let update = ["mutate Update pots a", "validate Update pots a"];
    assert_eq!(guard.steps(), [update, update].concat());
    client.merge(&format!("{A}/status"), &json!({"status": {"stirred": 1}})).await.expect(200);
    assert_eq!(guard.steps(), ["mutate Update pots/status a", "validate Update pots/status a"]);
    let applied = json!({"apiVersion": "kitchen.dev/v1", "kind": "Pot", "metadata": {"name": "b"},
        "spec": {"dish": "stew"}});
    let apply = |servings: i64| {
        let mut applied = applied.clone();
        applied["spec"]["servings"] = json!(servings);
        let client = client.clone();
        async move {
            let headers = [("content-type", "application/apply-patch+yaml")];
            let path = format!("{POTS}/b?fieldManager=flux");
            client.send("PATCH", &path, &headers, applied.to_string().into()).await
        }
    };
    apply(1).await.expect(201);
    apply(2).await.expect(200);
    let steps =
        ["mutate Create pots b", "validate Create pots b", "mutate Update pots b", "validate Update pots b"];
    assert_eq!(guard.steps(), steps);
    client.send("DELETE", A, &[], Bytes::new()).await.expect(200);
    assert_eq!(guard.steps(), ["mutate Delete pots a", "validate Delete pots a"]);
    client.send("DELETE", POTS, &[], Bytes::new()).await.expect(200);
    assert_eq!(guard.steps(), ["mutate Delete pots b", "validate Delete pots b"]);
}

#[tokio::test]
async fn an_action_is_admitted_and_the_writes_of_the_server_are_not() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    guard.calls();
    let stir = json!({"times": 2});
    client.post(&format!("{A}/stir"), &stir).await.expect(201);
    assert_eq!(guard.steps(), ["mutate Create pots/stir a", "validate Create pots/stir a"]);
}

#[tokio::test]
async fn plugins_see_the_scale_and_change_the_number_of_replicas() {
    let guard = Guard::changing(|object| {
        if object["kind"] == "Scale" {
            let replicas = object["spec"]["replicas"].as_i64().unwrap_or_default();
            object["spec"]["replicas"] = json!(replicas + 1);
            object["metadata"]["managedFields"] = json!([{"operation": "Nonsense"}]);
        }
    });
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    guard.calls();
    let answer = client.merge(&format!("{A}/scale"), &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(answer.expect(200)["spec"]["replicas"], 6);
    assert!(answer.header("warning").contains("managedFields was in an invalid state"), "{answer:?}");
    let [mutated, validated] = <[Call; 2]>::try_from(guard.calls()).expect("two calls");
    assert_eq!((mutated.step, mutated.resource.as_str()), ("mutate", "pots/scale"));
    assert_eq!(validated.object["kind"], "Scale");
    assert_eq!(
        (&validated.object["spec"]["replicas"], &validated.old["spec"]["replicas"]),
        (&json!(6), &json!(2))
    );
    assert_eq!(client.get(A).await.expect(200)["spec"]["servings"], 6);
}

#[tokio::test]
async fn a_plugin_cannot_change_what_the_server_and_the_strategy_protect() {
    let guard = Guard::changing(|pot| {
        pot["metadata"]["uid"] = json!("stolen");
        pot["metadata"]["name"] = json!("other");
        pot["metadata"]["namespace"] = json!("elsewhere");
        pot["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
        pot["metadata"]["generation"] = json!(70);
        pot["metadata"]["labels"] = json!({"seen": "yes"});
        pot["metadata"]["annotations"] = json!({"seen": "yes"});
        pot["status"] = json!({"stirred": 99});
        pot["spec"]["owner"] = json!("mallory");
        pot["unknown"] = json!(1);
    });
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let created = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    let meta = &created["metadata"];
    assert_ne!(meta["uid"], "stolen");
    assert_eq!(
        (&meta["name"], &meta["namespace"], &meta["generation"]),
        (&json!("a"), &json!("n"), &json!(1))
    );
    assert_ne!(meta["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!((&meta["labels"]["seen"], &meta["annotations"]["seen"]), (&json!("yes"), &json!("yes")));
    assert!(created.get("status").is_none() && created.get("unknown").is_none(), "{created}");
    let changed = client.merge(A, &json!({"spec": {"servings": 7}})).await.expect(200);
    assert!(changed.get("status").is_none(), "{changed}");
    let stirred = client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    assert_eq!(stirred["status"]["stirred"], 99, "the status is the plugin's to change here");
    assert_eq!(stirred["spec"]["servings"], 7);
}

#[tokio::test]
async fn nobody_owns_what_a_plugin_changes_and_a_broken_record_is_put_back() {
    let guard = Guard::changing(|pot| {
        pot["metadata"]["labels"] = json!({"seen": "yes"});
        pot["metadata"]["managedFields"][0]["operation"] = json!("Nonsense");
    });
    let kitchen = guarded(&guard).await;
    let created = kitchen.client().post(POTS, &pot("a", json!({"dish": "soup"}))).await;
    assert!(created.header("warning").contains("managedFields was in an invalid state"), "{created:?}");
    let created = created.expect(201);
    assert_eq!(created["metadata"]["labels"]["seen"], "yes");
    let entries = created["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["operation"], "Update");
    assert!(entries[0]["fieldsV1"].get("f:metadata").is_none(), "{}", entries[0]);
}

#[tokio::test]
async fn the_validation_sees_the_object_as_it_is_stored_and_the_old_one() {
    let guard = Guard::changing(|pot| pot["metadata"]["labels"] = json!({"seen": "yes"}));
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let created = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    let calls = guard.calls();
    assert_eq!(calls[0].object["spec"]["servings"], 2, "defaults come first");
    assert_eq!(calls[0].object["spec"].get("owner"), None, "the strategy comes later");
    assert_eq!(calls[1].object["spec"]["owner"], "cook");
    assert_eq!(
        (&calls[1].object["metadata"]["labels"]["seen"], &calls[1].old),
        (&json!("yes"), &Value::Null)
    );
    let headers = [("content-type", "application/merge-patch+json")];
    let path = format!("{A}?dryRun=All&fieldManager=spoon&fieldValidation=Strict");
    let change = json!({"spec": {"servings": 5}}).to_string();
    client.send("PATCH", &path, &headers, change.into()).await.expect(200);
    let calls = guard.calls();
    assert!(calls.iter().all(|call| call.dry_run && call.old == created), "{calls:?}");
    let options = json!({"kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
        "fieldManager": "spoon", "fieldValidation": "Strict"});
    assert_eq!(calls[1].options, options);
    let headers = [("content-type", "application/json")];
    let options =
        json!({"propagationPolicy": "Foreground", "preconditions": {"uid": created["metadata"]["uid"]}});
    client.send("DELETE", A, &headers, options.to_string().into()).await.expect(200);
    let call = guard.calls().pop().expect("a call");
    assert_eq!((&call.object, &call.old), (&Value::Null, &created));
    assert_eq!(call.options["propagationPolicy"], "Foreground");
    assert_eq!(call.options["preconditions"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test]
async fn a_denied_write_changes_nothing() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    for step in ["mutate", "validate"] {
        let mut denied = pot("denied", json!({"dish": "soup"}));
        denied["metadata"]["labels"] = json!({"denied": step});
        let status = client.post(POTS, &denied).await.refused(403, "Forbidden");
        assert_eq!(status["message"], format!("{step} says no"));
        client.get(&format!("{POTS}/denied")).await.refused(404, "NotFound");
    }
    let created = client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    let labels = json!({"metadata": {"labels": {"denied": "validate"}}});
    client.merge(A, &labels).await.refused(403, "Forbidden");
    assert_eq!(client.get(A).await.expect(200), created);
}

#[tokio::test]
async fn a_denied_deletion_keeps_the_object_also_in_a_collection() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    // The label comes by the server's own hand, which no plugin sees.
    let context =
        machinery_server::RequestContext::new(machinery_auth::UserInfo::default(), "n", chrono::Utc::now());
    let label = |pot: &mut crate::support::Pot| {
        let labels = pot.metadata.labels.get_or_insert_default();
        labels.insert("denied".to_owned(), "validate".to_owned());
        Ok(())
    };
    kitchen.pots.mutate(&context, "n", "a", label).await.expect("a label");
    client.send("DELETE", A, &[], Bytes::new()).await.refused(403, "Forbidden");
    client.send("DELETE", POTS, &[], Bytes::new()).await.refused(403, "Forbidden");
    client.get(A).await.expect(200);
}

#[tokio::test]
async fn a_write_that_nothing_intercepts_costs_one_look() {
    let guard = Arc::new(Guard { idle: true, ..Guard::default() });
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    client.merge(A, &json!({"spec": {"servings": 4}})).await.expect(200);
    client.send("DELETE", A, &[], Bytes::new()).await.expect(200);
    assert_eq!(guard.looks.load(Ordering::Relaxed), 3);
    assert!(guard.calls().is_empty());
}

#[tokio::test]
async fn plugins_are_asked_once_for_a_write_and_again_only_after_a_conflict() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
    for servings in 3..6 {
        client.merge(A, &json!({"spec": {"servings": servings}})).await.expect(200);
    }
    // One for the creation, three for the changes, although the cache may lag behind each time.
    assert_eq!(guard.calls().iter().filter(|call| call.step == "mutate").count(), 4);
    // The plugin's first call lets another write come first.
    let pots = kitchen.pots.clone();
    let once = AtomicUsize::new(0);
    let handle = tokio::runtime::Handle::current();
    let change: Change = Box::new(move |_| {
        if once.fetch_add(1, Ordering::Relaxed) == 0 {
            let (pots, handle) = (pots.clone(), handle.clone());
            let other = std::thread::spawn(move || {
                let user = machinery_auth::UserInfo::default();
                let context = machinery_server::RequestContext::new(user, "n", chrono::Utc::now());
                let change = |pot: &mut crate::support::Pot| {
                    pot.spec.tags = vec!["other".to_owned()];
                    Ok(())
                };
                handle.block_on(pots.mutate(&context, "n", "a", change)).map(drop)
            });
            other.join().expect("no panic").expect("the other write");
        }
    });
    *guard.change.lock().expect("no panic") = Some(change);
    let changed = client.merge(A, &json!({"spec": {"servings": 9}})).await.expect(200);
    assert_eq!((&changed["spec"]["servings"], &changed["spec"]["tags"]), (&json!(9), &json!(["other"])));
    let calls = guard.calls();
    assert_eq!(calls.iter().filter(|call| call.step == "mutate").count(), 2);
    assert_eq!(calls[2].old["spec"]["tags"], json!(["other"]));
}

#[tokio::test]
async fn a_plugin_sees_the_options_of_a_deletion_as_they_were_sent() {
    let guard = Arc::<Guard>::default();
    let kitchen = guarded(&guard).await;
    let client = kitchen.client();
    let cases = [
        json!({"gracePeriodSeconds": 0}),
        json!({"gracePeriodSeconds": 30, "propagationPolicy": "Background"}),
        json!({"orphanDependents": false}),
        json!({"orphanDependents": true}),
        json!({"propagationPolicy": "Orphan"}),
    ];
    for mut options in cases {
        client.post(POTS, &pot("a", json!({"dish": "soup"}))).await.expect(201);
        guard.calls();
        client.delete_with(A, &options).await;
        let call = guard.calls().pop().expect("a call");
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("meta.k8s.io/v1");
        assert_eq!(call.options, options);
        client.merge(A, &json!({"metadata": {"finalizers": null}})).await;
    }
}
