//! Entries that wait for a window.

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::harness::{Server, evacuation, join, requester};

/// A window that opens in some months.
fn far() -> Value {
    let day = Utc::now() + TimeDelta::days(120);
    let schedule = format!("0 0 {} {} *", day.day(), day.month());
    json!({"window": {"schedule": schedule, "durationSeconds": 3600}})
}

/// A window that is always open.
fn open() -> Value {
    json!({"window": {"schedule": "* * * * *", "durationSeconds": 3600}})
}

#[tokio::test]
async fn an_evacuation_whose_only_entry_sleeps_says_when_it_wakes() {
    let server = Server::start().await;
    let created = server.evacuation("e", far()).await;
    let policy = &created["status"]["policy"];
    let opens: DateTime<Utc> = policy["nextWindowTime"].as_str().unwrap().parse().unwrap();
    let days = (opens - Utc::now()).num_days();
    assert!((118..=121).contains(&days), "{policy:#}");
    assert_eq!(policy["windows"][0]["requester"], "jane.example.com/a");
    assert_eq!(policy["windows"][0]["time"], policy["nextWindowTime"]);
    assert_eq!(policy["onRefusal"], "GiveUp", "nobody who is awake asks for more");
    assert_eq!(created["spec"]["requesters"][0]["window"]["timeZone"], "UTC");

    let table = server.user("jane").get_table("evacuations").await.ok();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let at = columns.iter().position(|c| c["name"] == "Until").unwrap();
    let cells = &table["rows"][0]["cells"];
    assert_eq!(cells[2], "Scheduled");
    let shown: DateTime<Utc> = cells[at].as_str().unwrap().parse().unwrap();
    assert_eq!(shown, opens);

    let jane = server.user("jane");
    jane.create(&evacuation("f", "db-0", &[requester("jane.example.com/b", json!({}))]))
        .await
        .refused(409, "Conflict")
        .cause("ActiveEvacuationExists");
}

#[tokio::test]
async fn nobody_starts_a_negotiation_while_everybody_sleeps() {
    let server = Server::start().await;
    server.cluster.register(&json!([{"name": "self"}]));
    server.evacuation("e", far()).await;
    let start = |status: &mut Value| status["responders"][0]["state"] = json!("Active");
    let refusal = server.controller().edit_status("e", start).await.refused(409, "Conflict");
    refusal.cause("NotYet");
    assert!(refusal.retry_after().is_some_and(|seconds| seconds > 86_400));

    let joe = server.user("joe");
    let joined = joe.edit("e", |object| join(object, requester("joe.example.com/j", open()))).await.ok();
    assert_eq!(joined["status"]["policy"]["onRefusal"], "Wait");
    assert_eq!(joined["status"]["policy"]["windows"][0]["reached"], true);
    server.controller().edit_status("e", start).await.ok();
}

#[tokio::test]
async fn a_deadline_before_the_window_is_allowed_with_a_warning() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let mut entry = far();
    entry["deadline"] = json!((Utc::now() + TimeDelta::hours(1)).to_rfc3339());
    let created =
        jane.create(&evacuation("e", "db-0", &[requester("jane.example.com/a", entry.clone())])).await;
    let warned = |warnings: &[String]| warnings.iter().any(|w| w.contains("before the window opens"));
    assert!(warned(&created.warnings), "{created:#?}");
    created.ok();

    let other =
        server.user("joe").edit("e", |object| join(object, requester("joe.example.com/j", open()))).await;
    assert!(!warned(&other.warnings), "it is jane's: {other:#?}");
    other.ok();
    entry["message"] = json!("again");
    let again = jane
        .edit("e", |object| {
            object["spec"]["requesters"][0] = requester("jane.example.com/a", entry);
        })
        .await;
    assert!(warned(&again.warnings), "{again:#?}");
    again.ok();
}

#[tokio::test]
async fn rule_5_dropping_a_window_needs_the_right_to_evict_and_adding_one_does_not() {
    let server = Server::start().await;
    server.evacuation("e", json!({})).await;
    let jane = server.user("jane");
    let put = |entry: Value| {
        move |object: &mut Value| {
            object["spec"]["requesters"][0] = requester("jane.example.com/a", entry);
        }
    };
    server.cluster.revoke("jane", "create pods/eviction");
    jane.edit("e", put(far())).await.ok();
    jane.edit("e", put(json!({}))).await.refused(403, "Forbidden").saying("\"pods/eviction\"");
    jane.edit("e", put(open())).await.refused(403, "Forbidden");
    server.cluster.grant("jane", "create pods/eviction");
    jane.edit("e", put(json!({}))).await.ok();
}

#[tokio::test]
async fn what_is_wrong_with_a_window_is_named_field_by_field() {
    let server = Server::start().await;
    let jane = server.user("jane");
    let base = "spec.requesters[0].window";
    for (window, fields) in [
        (json!({"schedule": "soon", "durationSeconds": 3600}), vec!["schedule"]),
        (json!({"schedule": "0 0 30 2 *", "durationSeconds": 3600}), vec!["schedule"]),
        (json!({"schedule": "0 0 22 * * 6", "durationSeconds": 3600}), vec!["schedule"]),
        (json!({"schedule": "TZ=UTC 0 22 * * 6", "durationSeconds": 3600}), vec!["schedule"]),
        (json!({"schedule": "@daily", "durationSeconds": 59}), vec!["durationSeconds"]),
        (json!({"schedule": "@daily", "durationSeconds": 604_801}), vec!["durationSeconds"]),
        (json!({"schedule": "@daily", "durationSeconds": 60, "timeZone": "Mars/Base"}), vec!["timeZone"]),
        (
            json!({"schedule": "", "durationSeconds": 0, "timeZone": ""}),
            vec!["schedule", "durationSeconds", "timeZone"],
        ),
    ] {
        let entry = requester("jane.example.com/a", json!({"window": window}));
        let refusal = jane.create(&evacuation("e", "db-0", &[entry])).await.refused(422, "Invalid");
        let causes = refusal.0["details"]["causes"].as_array().unwrap();
        let named: Vec<_> = causes.iter().map(|c| c["field"].as_str().unwrap()).collect();
        let expected: Vec<_> = fields.iter().map(|field| format!("{base}.{field}")).collect();
        assert_eq!(named, expected, "{refusal:?}");
    }
    let unread = requester("jane.example.com/a", json!({"window": {"schedule": "@daily"}}));
    jane.create(&evacuation("e", "db-0", &[unread]))
        .await
        .refused(422, "Invalid")
        .saying("durationSeconds: Required value");
}
