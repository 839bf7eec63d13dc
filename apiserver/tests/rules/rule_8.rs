//! Rule 8: no tenant can exclude another.

use serde_json::{Value, json};

use crate::harness::{Server, evacuation, join, requester};

/// Entries whose window opens on New Year's Day only.
fn entries(prefix: &str, count: usize) -> Vec<Value> {
    let window = json!({"schedule": "0 0 1 1 *", "durationSeconds": 60});
    (0..count).map(|i| requester(&format!("{prefix}.example.com/r{i}"), json!({"window": window}))).collect()
}

#[tokio::test]
async fn rule_8_no_owner_holds_more_than_a_quarter_of_the_entries_and_others_still_join() {
    let server = Server::start().await;
    let all = evacuation("e", "db-0", &entries("tenant", 32));
    server
        .user("joe")
        .create(&all)
        .await
        .refused(422, "Invalid")
        .because("FieldValueTooMany", "spec.requesters");
    server.user("joe").create(&evacuation("e", "db-0", &entries("tenant", 8))).await.ok();
    let ninth = server
        .user("joe")
        .edit("e", |object| join(object, requester("ninth.example.com/x", json!({}))))
        .await;
    ninth.refused(422, "Invalid").because("FieldValueTooMany", "spec.requesters");
    let joined = server
        .user("jane")
        .edit("e", |object| join(object, requester("jane.example.com/a", json!({}))))
        .await;
    assert_eq!(joined.ok()["status"]["policy"]["onRefusal"], "Wait", "jane's entry is awake");
}

/// A quarter of the entries is reserved.
///
/// # Attack
///
/// - Attacker: a tenant with many service accounts
/// - Act: fills the entries with one share for each account
/// - Promise: 8
#[tokio::test]
async fn rule_8_a_tenant_with_many_accounts_does_not_exclude_a_holder_of_override() {
    let server = Server::start().await;
    for account in ["a", "b", "c", "d"] {
        server.cluster.grant(account, "create pods/eviction");
        if account == "a" {
            server.user("a").create(&evacuation("e", "db-0", &entries("a", 8))).await.ok();
            continue;
        }
        let fill = |object: &mut Value| {
            for entry in entries(account, 8) {
                join(object, entry);
            }
        };
        server.user(account).edit("e", fill).await.ok();
    }
    let drain = |object: &mut Value| join(object, requester("drain.evacuation.dev/node-a_root", json!({})));
    server.user("jane").edit("e", drain).await.refused(403, "Forbidden").cause("TooManyRequesters");
    server.cluster.grant("root", "create pods/eviction");
    server.cluster.grant("root", "override evacuations");
    let joined = server.user("root").edit("e", drain).await.ok();
    assert_eq!(joined["spec"]["requesters"].as_array().unwrap().len(), 33);
}
