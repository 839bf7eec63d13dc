//! Rule 6: terminal states never change, status never moves backwards, and times are the server's.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::harness::{Change, Server, responder};

fn time(value: &Value) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(value.as_str().unwrap()).unwrap().to_utc()
}

/// The conditions of an end.
fn ended(kind: &str, reason: &str) -> Value {
    json!([{"type": kind, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z"}])
}

async fn asked(server: &Server) {
    server.evacuation("e", json!({})).await;
    let self_responder = responder("self", 10_000, "Inactive");
    server.begin("e", &[responder("db.acme.io/failover", 20_000, "Active"), self_responder]).await;
}

#[tokio::test]
async fn rule_6_times_are_the_servers() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    let before = Utc::now() - TimeDelta::seconds(1);
    server.begin("e", &[responder("self", 10_000, "Inactive")]).await;
    let activate = |status: &mut Value| {
        status["responders"][0]["state"] = json!("Active");
        status["responders"][0]["activeTime"] = json!("2020-01-01T00:00:00Z");
    };
    let begun = server.controller().edit_status("e", activate).await.ok();
    assert!(time(&begun["status"]["responders"][0]["activeTime"]) > before, "{begun:#}");
    let back = |status: &mut Value| status["responders"][0]["activeTime"] = json!("2020-01-01T00:00:00Z");
    let kept = server.controller().edit_status("e", back).await.ok();
    assert_eq!(kept["status"]["responders"], begun["status"]["responders"]);
}

#[tokio::test]
async fn rule_6_a_responder_is_not_silent_before_its_timeout() {
    let server = Server::start().await;
    asked(&server).await;
    let skip = |status: &mut Value| {
        status["responders"][0]["state"] = json!("Interrupted");
        status["responders"][1]["state"] = json!("Active");
    };
    let refusal = server.controller().edit_status("e", skip).await.refused(409, "Conflict");
    refusal.cause("NotYet");
    assert!((55..=60).contains(&refusal.retry_after().unwrap()), "{refusal:?}");
}

#[tokio::test]
async fn rule_6_status_moves_only_along_the_table() {
    let server = Server::start().await;
    asked(&server).await;
    let changes: [(&str, Change); 8] = [
        ("back to Inactive", |status| {
            status["responders"][0]["state"] = json!("Inactive");
        }),
        ("two at once", |status| {
            status["responders"][1]["state"] = json!("Active");
        }),
        ("done without an answer", |status| {
            status["responders"][0]["state"] = json!("Completed");
        }),
        ("evicting while one is asked", |status| {
            status["eviction"] = json!({"attempts": 1, "inFlight": true});
        }),
        ("another list", |status| status["responders"] = json!([])),
        ("accepted without an attempt", |status| status["eviction"] = json!({"accepted": true})),
        ("evicted without an attempt", |status| status["conditions"] = ended("Evacuated", "Evicted")),
        ("refused without a refusal", |status| status["conditions"] = ended("Failed", "Refused")),
    ];
    for (what, change) in changes {
        let reply = server.controller().edit_status("e", change).await;
        assert_eq!((reply.code, &reply.body["reason"]), (422, &json!("Invalid")), "{what}: {reply:#?}");
        assert!(!reply.body["details"]["causes"].as_array().unwrap().is_empty(), "{what}");
    }
}

/// The table of transitions has no way back.
///
/// # Attack
///
/// - Attacker: a writer of the status
/// - Act: changes an Evacuation that has ended
/// - Promise: 6
#[tokio::test]
async fn rule_6_nothing_changes_after_the_end() {
    let server = Server::start().await;
    asked(&server).await;
    let jane = server.user("jane");
    let ended = jane.edit("e", |object| object["spec"]["requesters"] = json!([])).await.ok();
    let changes: [(&str, Change); 4] = [
        ("asked again", |status| {
            status["responders"][0]["state"] = json!("Active");
        }),
        ("another end", |status| status["conditions"] = self::ended("Evacuated", "GoneByOther")),
        ("not ended", |status| status["conditions"] = json!([])),
        ("evicting", |status| {
            status["eviction"] = json!({"attempts": 1, "inFlight": true});
        }),
    ];
    for (what, change) in changes {
        let reply = server.controller().edit_status("e", change).await;
        if reply.code < 300 {
            assert_eq!(reply.body["status"], ended["status"], "{what}");
        } else {
            reply.refused(409, "Conflict").cause("EvacuationFinished");
        }
    }
    assert_eq!(jane.get("evacuations/e").await.ok()["status"], ended["status"]);
}
