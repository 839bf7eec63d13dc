use std::time::Duration;

use bytes::Bytes;
use machinery_server::{ObjectLimits, ServerOptions};
use machinery_storage::{Operation, Store, Transaction};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Kitchen, Setup, pot, revision};

const POTS: &str = "/apis/kitchen.dev/v1/namespaces/n/pots";
const A: &str = "/apis/kitchen.dev/v1/namespaces/n/pots/a";

#[tokio::test]
async fn every_request_that_cannot_be_served_gets_a_status() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let cases = [
        ("GET", "/nowhere", 404, "NotFound"),
        ("GET", "/api/v1/pods", 404, "NotFound"),
        ("GET", "/apis/kitchen.dev/v2", 404, "NotFound"),
        ("GET", "/apis/kitchen.dev/v1/pans", 404, "NotFound"),
        ("GET", "/apis/kitchen.dev/v1/pots/a", 404, "NotFound"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots/a/none", 404, "NotFound"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots/a/status/more", 404, "NotFound"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots/none", 404, "NotFound"),
        ("POST", "/apis/kitchen.dev/v1/pots", 405, "MethodNotAllowed"),
        ("POST", A, 405, "MethodNotAllowed"),
        ("PUT", POTS, 405, "MethodNotAllowed"),
        ("PATCH", POTS, 405, "MethodNotAllowed"),
        ("DELETE", "/apis/kitchen.dev/v1/pots", 405, "MethodNotAllowed"),
        ("OPTIONS", POTS, 405, "MethodNotAllowed"),
        ("BREW", A, 405, "MethodNotAllowed"),
        ("DELETE", "/apis/kitchen.dev/v1/stoves", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("POST", "/apis/kitchen.dev/v1/namespaces/n/ownpots", 405, "MethodNotAllowed"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?limit=x", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?timeoutSeconds=abc", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?watch=1&timeoutSeconds=abc", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?watch=1&limit=x", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?timeout=soon", 400, "BadRequest"),
        ("DELETE", "/apis/kitchen.dev/v1/namespaces/n/pots/a?gracePeriodSeconds=x", 400, "BadRequest"),
        ("DELETE", "/apis/kitchen.dev/v1/namespaces/n/pots?timeoutSeconds=x", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?continue=x", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?labelSelector=a%3Db%3Dc", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?fieldSelector=spec.stove%3Da", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?resourceVersion=x", 400, "BadRequest"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?resourceVersionMatch=Exact", 422, "Invalid"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?sendInitialEvents=true", 422, "Invalid"),
        ("GET", "/apis/kitchen.dev/v1/namespaces/n/pots?watch=1&sendInitialEvents=true", 422, "Invalid"),
    ];
    for (method, path, code, reason) in cases {
        let answer = client.send(method, path, &[], Bytes::new()).await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
        answer.refused(code, reason);
    }
}

#[tokio::test]
async fn bodies_that_are_no_such_object_are_refused() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let cases = [
        ("application/json", "{", 400, "BadRequest"),
        ("application/json", "", 400, "BadRequest"),
        ("application/json", "[]", 400, "BadRequest"),
        ("application/json", r#"{"metadata":{"name":"a"}}"#, 422, "Invalid"),
        ("application/json", r#"{"metadata":{"name":"a"},"spec":{"dish":1}}"#, 422, "Invalid"),
        ("application/json", r#"{"metadata":{"name":1},"spec":{"dish":"soup"}}"#, 400, "BadRequest"),
        ("application/json", r#"{"kind":1,"spec":{"dish":"soup"}}"#, 400, "BadRequest"),
        ("application/json", r#"{"kind":"Pan","spec":{"dish":"soup"}}"#, 400, "BadRequest"),
        ("application/json", r#"{"apiVersion":"v2","spec":{"dish":"soup"}}"#, 400, "BadRequest"),
        (
            "application/json",
            r#"{"metadata":{"namespace":"m","name":"a"},"spec":{"dish":"soup"}}"#,
            400,
            "BadRequest",
        ),
        (
            "application/json",
            r#"{"metadata":{"resourceVersion":"3","name":"a"},"spec":{"dish":"x"}}"#,
            400,
            "BadRequest",
        ),
        ("application/json", r#"{"spec":{"dish":"soup"}}"#, 422, "Invalid"),
        ("application/vnd.kubernetes.protobuf", "k8s", 415, "UnsupportedMediaType"),
    ];
    for (content_type, body, code, reason) in cases {
        let answer = client.send("POST", POTS, &[("content-type", content_type)], body.into()).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text());
        answer.refused(code, reason);
    }
    let long = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(3 * 1024 * 1024));
    let answer = client.send("POST", POTS, &[("content-type", "application/json")], long.into()).await;
    answer.refused(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn every_field_of_a_wrong_type_or_missing_is_a_cause_of_one_refusal() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let causes = json!([
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.dish"},
        {
            "reason": "FieldValueTypeInvalid",
            "message": "Invalid value: \"string\": spec.servings in body must be of type integer: \"string\"",
            "field": "spec.servings",
        },
        {
            "reason": "FieldValueTypeInvalid",
            "message": "Invalid value: \"integer\": spec.stove in body must be of type string: \"integer\"",
            "field": "spec.stove",
        },
    ]);
    let wrong = json!({"servings": "many", "stove": 1});
    let status = client.post(POTS, &pot("a", wrong.clone())).await.refused(422, "Invalid");
    assert_eq!(
        status["details"],
        json!({"name": "a", "group": "kitchen.dev", "kind": "Pot", "causes": causes})
    );
    let message = status["message"].as_str().expect("text");
    assert!(
        message.starts_with("Pot.kitchen.dev \"a\" is invalid: [spec.dish: Required value, "),
        "{message}"
    );

    client.create_pot("a", json!({"dish": "soup"})).await;
    let status = client.put(A, &pot("a", wrong)).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"], causes);
    let patch = json!({"spec": {"dish": null, "servings": "many", "stove": 1}});
    let status = client.merge(A, &patch).await.refused(422, "Invalid");
    assert_eq!(status["details"]["causes"], causes);
    let stir = client.post(&format!("{A}/stir"), &json!({})).await.refused(422, "Invalid");
    assert_eq!(stir["details"]["causes"][0]["field"], "times");
}

#[tokio::test]
async fn strict_findings_of_a_patch_are_reported_together() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    let merge = r#"{"spec": {"servings": 3, "servings": 4, "spice": 1, "salt": 1}}"#;
    let operations = r#"[{"op": "add", "path": "/spec/spice", "value": 1, "why": "taste"}]"#;
    let patches = [
        (
            "application/merge-patch+json",
            merge,
            "duplicate field \"spec.servings\", unknown field \"spec.salt\", unknown field \"spec.spice\"",
        ),
        (
            "application/json-patch+json",
            operations,
            "json patch unknown field \"[0].why\", unknown field \"spec.spice\"",
        ),
    ];
    for (content_type, patch, findings) in patches {
        let headers = [("content-type", content_type)];
        let strict = format!("{A}?fieldValidation=Strict");
        let status = client.send("PATCH", &strict, &headers, patch.into()).await.refused(422, "Invalid");
        assert_eq!(status["details"]["causes"][0]["field"], "patch");
        assert_eq!(status["message"], format!("strict decoding error: {findings}"));

        let warned = client.send("PATCH", A, &headers, patch.into()).await;
        warned.expect(200);
        let warnings: Vec<&str> =
            warned.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
        assert_eq!(warnings.len(), findings.split(", ").count(), "{warnings:?}");
        let ignored =
            client.send("PATCH", &format!("{A}?fieldValidation=Ignore"), &headers, patch.into()).await;
        assert_eq!((ignored.code, ignored.header("warning")), (200, ""));
    }
}

#[tokio::test]
async fn an_object_that_the_store_does_not_take_is_too_large() {
    let kitchen = Kitchen::open().await;
    let dish = "x".repeat(2 * 1024 * 1024);
    let answer = kitchen.client().post(POTS, &pot("a", json!({"dish": dish}))).await;
    answer.refused(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn an_object_has_a_size_that_callers_cannot_make_it_exceed() {
    let kitchen = {
        let limits = ObjectLimits { object_bytes: 64 * 1024, ..ObjectLimits::NONE };
        Kitchen::with(Setup { limits: Some(limits), ..Setup::default() }).await
    };
    let client = kitchen.client();
    let large = json!({"metadata": {"annotations": {"why": "x".repeat(64 * 1024)}}});
    let mut pot = pot("a", json!({"dish": "soup"}));
    pot["metadata"]["annotations"] = large["metadata"]["annotations"].clone();
    let status = client.post(POTS, &pot).await.refused(413, "RequestEntityTooLarge");
    let message = status["message"].as_str().expect("text");
    assert!(
        message.starts_with("Request entity too large: the metadata of pots.kitchen.dev \"a\""),
        "{message}"
    );
    assert!(message.ends_with("limit is 65536"), "{message}");
    client.create_pot("a", json!({"dish": "soup"})).await;
    client.merge(A, &large).await.refused(413, "RequestEntityTooLarge");

    // One from before there was a limit can be made smaller, and its status can be written.
    let mut old = client.get(A).await.expect(200);
    old["metadata"]["annotations"] = json!({"why": "x".repeat(100 * 1024)});
    let put = Operation::Put("/registry/kitchen.dev/pots/n/a".to_owned(), old.to_string().into());
    let transaction = Transaction { preconditions: Vec::new(), operations: vec![put] };
    kitchen.store.commit(transaction).await.expect("written");
    client.merge(&format!("{A}/status"), &json!({"status": {"done": true}})).await.expect(200);
    let less = json!({"metadata": {"annotations": {"why": "x".repeat(90 * 1024)}}});
    client.merge(A, &less).await.expect(200);
    let more = json!({"metadata": {"labels": {"more": "yes"}}});
    client.merge(A, &more).await.refused(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn unauthenticated_and_unauthorised_callers_are_refused() {
    let kitchen = Kitchen::open().await;
    kitchen.client().create_pot("a", json!({"dish": "soup"})).await;
    let nobody = kitchen.client_of("").get(A).await;
    assert_eq!(nobody.refused(401, "Unauthorized")["message"], "Unauthorized");
    kitchen.client_of("impostor").get(A).await.refused(401, "Unauthorized");
    let unknowable = kitchen.client_of("unknowable").get(A).await;
    unknowable.refused(503, "ServiceUnavailable");
    assert_eq!(unknowable.header("retry-after"), "1");

    let status = kitchen.client_of("thief").get(A).await.refused(403, "Forbidden");
    assert_eq!(
        status["message"],
        "pots.kitchen.dev \"a\" is forbidden: User \"thief\" cannot get resource \"pots\" in API group \"kitchen.dev\" \
         in the namespace \"n\""
    );
    assert_eq!(status["details"], json!({"name": "a", "group": "kitchen.dev", "kind": "pots"}));
    kitchen.client_of("thief").get("/apis/kitchen.dev/v1/none").await.refused(403, "Forbidden");
    kitchen.client_of("thief").get("/metrics").await.refused(403, "Forbidden");
    kitchen.client_of("reader").get(A).await.expect(200);
    let status = kitchen.client_of("reader").delete(A).await.refused(403, "Forbidden");
    assert!(status["message"].as_str().expect("text").ends_with(": readers read"), "{status}");
    kitchen.client_of("thief").get("/readyz").await;
}

#[tokio::test]
async fn impersonation_is_refused_with_a_message_that_names_kube_apiserver() {
    let kitchen = Kitchen::open().await;
    for header in ["Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes"] {
        let answer = kitchen.client().send("GET", POTS, &[(header, "baker")], Bytes::new()).await;
        let status = answer.refused(403, "Forbidden");
        let message = status["message"].as_str().expect("text");
        assert!(message.contains("kube-apiserver only"), "{message}");
    }
    kitchen.client().get(POTS).await.expect(200);
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_harms_nobody_else() {
    let kitchen = Kitchen::open().await;
    let client = kitchen.client();
    let status = client.post(POTS, &pot("a", json!({"dish": "burnt"}))).await.refused(500, "InternalError");
    assert_eq!(status["message"], "Internal error occurred: serving the request failed");
    client.create_pot("a", json!({"dish": "soup"})).await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_ends() {
    let options = ServerOptions { request_timeout: Duration::from_millis(300), ..ServerOptions::default() };
    let kitchen = Kitchen::with(Setup { options, ..Setup::default() }).await;
    let client = kitchen.client();
    kitchen.store.hold_watches(true);
    let unseen = client.create_pot("a", json!({"dish": "soup"})).await;
    // Waiting for the cache takes longer than the request may.
    let answer = client.get(&format!("{POTS}?resourceVersion={}", revision(&unseen))).await;
    answer.refused(504, "Timeout");
    kitchen.store.hold_watches(false);
}

#[tokio::test]
async fn a_request_takes_no_longer_than_its_caller_says() {
    let kitchen = Kitchen::open().await;
    kitchen.store.hold_watches(true);
    let client = kitchen.client();
    client.create_pot("a", json!({"dish": "soup"})).await;
    // The cache does not get to the revision of the write.
    let answer = client.get(&format!("{POTS}?resourceVersion=1&timeout=100ms")).await;
    answer.expect(200);
    let answer = client.get(&format!("{POTS}?timeout=100ms")).await;
    let status = answer.refused(504, "Timeout");
    assert_eq!(status["message"], "Timeout: request did not complete within the allotted timeout");
    kitchen.store.hold_watches(false);
    client.get(&format!("{POTS}?timeout=0s")).await.expect(200);
}

#[tokio::test]
async fn a_slow_sender_blocks_no_other_caller_and_times_out() {
    let options = ServerOptions {
        max_writes_in_flight: 1,
        body_timeout: Duration::from_secs(1),
        ..ServerOptions::default()
    };
    let kitchen = Kitchen::with(Setup { options, ..Setup::default() }).await;
    let mut slow = tokio::net::TcpStream::connect(kitchen.address()).await.expect("a connection");
    let head = format!("POST {POTS} HTTP/1.1\r\nhost: k\r\nx-user: cook\r\ncontent-length: 100\r\n\r\n{{");
    slow.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    let cook = async {
        let client = kitchen.client();
        for at in 0.. {
            client.create_pot(&format!("p{at}"), json!({"dish": "soup"})).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), slow.read_exact(&mut answer));
    tokio::select! {
        () = cook => {}
        read = ended => {
            read.expect("in time").expect("an answer");
        }
    }
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 504");
}

#[tokio::test]
async fn answers_carry_the_audit_id_of_their_request() {
    let kitchen = Kitchen::open().await;
    let given = kitchen.client().send("GET", A, &[("audit-id", "abc")], Bytes::new()).await;
    assert_eq!(given.header("audit-id"), "abc");
    assert_eq!(kitchen.client().get(A).await.header("audit-id").len(), 36);
}

#[tokio::test]
async fn answers_and_refusals_carry_the_time_of_the_server() {
    let kitchen = Kitchen::open().await;
    for path in [A, "/apis/no.such/v1/things"] {
        let before = chrono::Utc::now();
        let answer = kitchen.client().get(path).await;
        let time = chrono::DateTime::parse_from_rfc3339(answer.header("server-time")).unwrap();
        // It has microseconds, and is cut there.
        let earliest = before - chrono::TimeDelta::microseconds(1);
        assert!((earliest..=chrono::Utc::now()).contains(&time.to_utc()), "{time}");
    }
}
