//! What the audit log records.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use machinery_audit::{AuditLog, LogOptions, Mode, Policy};
use machinery_server::{
    Admission, AdmissionAttributes, ApiError, Interception, MutableObject, ServerOptions,
};
use serde_json::{Value, json};

use crate::support::{Kitchen, Setup, eventually, pot};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

/// A kitchen with an audit log.
struct Audited {
    kitchen: Kitchen,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Audited {
    /// A kitchen whose policy has these rules.
    async fn open(rules: &str) -> Self {
        Self::with(rules, Setup::default()).await
    }

    async fn with(rules: &str, setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let options = LogOptions { path: path.clone(), mode: Mode::Blocking, ..LogOptions::default() };
        let log = Arc::new(AuditLog::start(options).expect("a log"));
        let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}");
        let policy = Policy::parse(policy.as_bytes()).expect("a policy");
        let setup = Setup { audit: Some((policy, log)), ..setup };
        Self { kitchen: Kitchen::with(setup).await, path, _folder: folder }
    }

    /// The events so far, but for those of the probes.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).expect("text");
        let events = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        events.filter(|event: &Value| event["requestURI"] != "/readyz").collect()
    }

    /// Stage, verb and code of the events so far.
    fn summaries(&self) -> Vec<String> {
        let summary = |event: &Value| {
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("stage"), text("verb"), event["responseStatus"]["code"])
        };
        self.events().iter().map(summary).collect()
    }
}

#[tokio::test]
async fn a_write_is_recorded_with_user_object_and_status_when_it_arrives_and_when_it_is_answered() {
    let audited = Audited::open("rules: [{level: RequestResponse, omitManagedFields: true}]").await;
    let headers = [
        ("content-type", "application/json"),
        ("audit-id", "id-1"),
        ("user-agent", "spoon/1.0"),
        ("x-forwarded-for", "10.1.2.3, nonsense"),
        ("authorization", "Bearer slow"),
    ];
    let body = pot("a", json!({"dish": "soup"}));
    let path = format!("{POTS}?fieldManager=spoon");
    let answer = audited.kitchen.client().send("POST", &path, &headers, body.to_string().into()).await;
    answer.expect(201);
    assert_eq!(answer.header("audit-id"), "id-1");

    assert_eq!(audited.summaries(), ["RequestReceived create null", "ResponseComplete create 201"]);
    let events = audited.events();
    for (event, name) in [(&events[0], Value::Null), (&events[1], json!("a"))] {
        assert_eq!(event["auditID"], "id-1");
        assert_eq!(event["requestURI"], path);
        assert_eq!(event["user"], json!({"username": "cook"}));
        assert_eq!(event["userAgent"], "spoon/1.0");
        assert_eq!(event["sourceIPs"], json!(["10.1.2.3", "127.0.0.1"]));
        let reference = json!({
            "resource": "pots", "namespace": "n", "name": name, "apiGroup": "kitchen.dev", "apiVersion": "v1",
        });
        let mut found = event["objectRef"].clone();
        found["name"] = event["objectRef"]["name"].clone();
        assert_eq!(found, reference);
    }
    let complete = &events[1];
    assert_eq!(complete["requestObject"], body);
    assert_eq!(complete["responseObject"]["spec"]["servings"], 2);
    assert!(complete["responseObject"]["metadata"].get("managedFields").is_none(), "{complete}");
    assert_eq!(complete["responseStatus"], json!({"metadata": {}, "code": 201}));
    let annotations = json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""});
    assert_eq!(complete["annotations"], annotations);
    let text = std::fs::read_to_string(&audited.path).expect("text");
    assert!(!text.contains("Bearer") && !text.contains("slow"), "{text}");
}

#[tokio::test]
async fn the_first_rule_that_matches_decides_and_bodies_are_recorded_at_their_level_only() {
    let rules = "omitStages: [RequestReceived]\nrules:\n\
                 - {level: None, users: [local]}\n\
                 - {level: Request, resources: [{group: kitchen.dev, resources: [pots/status]}]}\n\
                 - {level: Metadata, resources: [{group: kitchen.dev, resources: ['*']}]}\n";
    let audited = Audited::open(rules).await;
    let client = audited.kitchen.client();
    let created = client.create_pot("a", json!({"dish": "soup"})).await;
    audited.kitchen.client_of("local").get(A).await.expect(200);
    client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    client.put(A, &created).await.refused(409, "Conflict");
    client.get("/version").await.expect(200);
    let events = audited.events();
    let levels: Vec<_> = events.iter().map(|event| (&event["level"], &event["verb"])).collect();
    assert_eq!(
        levels,
        [
            (&json!("Metadata"), &json!("create")),
            (&json!("Request"), &json!("patch")),
            (&json!("Metadata"), &json!("update")),
        ]
    );
    assert!(events[0].get("requestObject").is_none());
    assert_eq!(events[1]["requestObject"], json!({"status": {"done": true}}));
    assert!(events[1].get("responseObject").is_none());
    let reference = &events[2]["objectRef"];
    assert_eq!(reference["uid"], created["metadata"]["uid"]);
    assert_eq!(reference["resourceVersion"], created["metadata"]["resourceVersion"]);
    let status = &events[2]["responseStatus"];
    assert_eq!((&status["status"], &status["reason"]), (&json!("Failure"), &json!("Conflict")));
}

#[tokio::test]
async fn a_watch_is_recorded_when_it_starts_and_when_its_client_leaves() {
    let audited = Audited::open("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    let watch = audited.kitchen.client().watch(&format!("{POTS}?watch=true")).await;
    assert_eq!(audited.summaries(), ["ResponseStarted watch 200"]);
    drop(watch);
    eventually("the end is recorded", || async {
        audited.summaries() == ["ResponseStarted watch 200", "ResponseComplete watch 200"]
    })
    .await;
}

#[tokio::test]
async fn refusals_and_panics_are_recorded() {
    let audited = Audited::open("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    let kitchen = &audited.kitchen;
    kitchen.client_of("thief").get(POTS).await.refused(403, "Forbidden");
    kitchen.client_of("").get(POTS).await.refused(401, "Unauthorized");
    let burnt = pot("a", json!({"dish": "burnt"}));
    kitchen.client().post(POTS, &burnt).await.refused(500, "InternalError");
    let summaries = ["ResponseComplete list 403", "ResponseStarted list 401", "Panic create 500"];
    assert_eq!(audited.summaries(), summaries);
    let events = audited.events();
    assert_eq!(events[0]["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(events[1]["user"], json!({}));
}

/// Refuses every write as busy.
struct Busy;

impl Admission for Busy {
    fn intercept(&self, _: &AdmissionAttributes<'_>) -> Option<Box<dyn Interception>> {
        Some(Box::new(Self))
    }
}

#[async_trait]
impl Interception for Busy {
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
        _: &AdmissionAttributes<'_>,
        _: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), ApiError> {
        let text = |text: &str| Some(text.to_owned());
        let (status, reason) = (text("Failure"), text("TooManyRequests"));
        Err(ApiError::Refused(Box::new(Status { code: Some(429), status, reason, ..Status::default() })))
    }
}

#[tokio::test]
async fn a_refusal_by_admission_is_recorded_with_its_own_code() {
    let setup = Setup { admission: Some(Arc::new(Busy)), ..Setup::default() };
    let rules = "omitStages: [RequestReceived]\nrules: [{level: Metadata}]";
    let audited = Audited::with(rules, setup).await;
    let soup = pot("a", json!({"dish": "soup"}));
    audited.kitchen.client().post(POTS, &soup).await.refused(429, "TooManyRequests");
    assert_eq!(audited.summaries(), ["ResponseComplete create 429"]);
}

#[tokio::test]
async fn a_websocket_whose_handshake_fails_is_recorded_as_a_failure() {
    let audited = Audited::open("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    let path = format!("{POTS}?watch=true");
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
    let client = audited.kitchen.client();
    client.send("GET", &path, &upgrade, Bytes::new()).await.expect(400);
    assert_eq!(audited.summaries(), ["ResponseComplete watch 400"]);
}

#[tokio::test]
async fn a_request_whose_client_leaves_is_recorded_as_closed_early() {
    let audited = Audited::open("omitStages: [RequestReceived]\nrules: [{level: Metadata}]").await;
    let client = audited.kitchen.client_of("system:serviceaccount:n:undecided");
    let undecided = tokio::spawn(async move { client.get(POTS).await });
    let in_flight = || async {
        let text = audited.kitchen.client().get("/metrics").await.text();
        text.lines().any(|line| line.contains("readOnly") && line.ends_with(" 2"))
    };
    eventually("it is being served", in_flight).await;
    undecided.abort();
    eventually("its end is recorded", || async {
        audited.summaries().contains(&"ResponseComplete list 499".to_owned())
    })
    .await;
}

#[tokio::test]
async fn events_and_levels_are_counted_under_kube_apiservers_names() {
    let audited = Audited::open("rules: [{level: Metadata, verbs: [list]}]").await;
    let client = audited.kitchen.client();
    for _ in 0..2 {
        client.send("GET", POTS, &[], Bytes::new()).await.expect(200);
    }
    let text = client.get("/metrics").await.text();
    for line in [
        "apiserver_audit_event_total 4",
        "apiserver_audit_level_total{level=\"Metadata\"} 2",
        "apiserver_audit_error_total{plugin=\"buffered\"} 0",
        "apiserver_audit_requests_rejected_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

#[tokio::test]
async fn a_server_with_a_stalled_log_serves_on_in_batch_mode() {
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]";
    let policy = Policy::parse(policy.as_bytes()).expect("a policy");
    // Each write to this device fails: the disk is full.
    let options =
        LogOptions { path: "/dev/full".into(), mode: Mode::Batch, max_size: 0, ..LogOptions::default() };
    let log = Arc::new(AuditLog::start(options).expect("a log"));
    let setup = Setup { audit: Some((policy, log)), options: ServerOptions::default(), ..Setup::default() };
    let kitchen = Kitchen::with(setup).await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    eventually("the lost events are counted", || async {
        let text = kitchen.client().get("/metrics").await.text();
        let line = text.lines().find(|line| line.starts_with("apiserver_audit_error_total{plugin=\"log\"}"));
        line.is_some_and(|line| !line.ends_with(" 0"))
    })
    .await;
}
