//! Entries of two users in one Evacuation.

use serde_json::{Value, json};

use crate::workbench::{Configuration, ENTRY, Workbench, assert_has};

/// Returns the Evacuation with these entries.
fn with_entries(evacuation: &Configuration, entries: &Value) -> Configuration {
    let mut with = evacuation.clone();
    with.object["spec"]["requesters"] = entries.clone();
    with
}

/// Returns the owners and names of the entries.
fn keys(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["spec"]["requesters"].as_array().map_or(&[][..], Vec::as_slice);
    entries.iter().map(|entry| (entry["owner"].as_str().unwrap(), entry["name"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_users_apply_their_own_entries_and_each_removes_only_its_own() {
    let bench = Workbench::new("entries").await;
    let alice = bench.user("alice", &["evacuation:requester"]).await.name;
    let bob = bench.user("bob", &["evacuation:requester"]).await.name;
    let evacuation = bench.evacuation();
    let one = with_entries(&evacuation, &json!([{"name": "test.evacuation.dev/one", "reason": "One"}]));
    let both = with_entries(
        &evacuation,
        &json!([{"name": "test.evacuation.dev/one", "reason": "One"}, {"name": "test.evacuation.dev/two"}]),
    );
    let none = with_entries(&evacuation, &json!([]));
    // Both users have an entry of the same name.
    let applies = async |user: &str, configuration: &Configuration, manager: &str| {
        let file = bench.file(configuration);
        let manager = format!("--field-manager={manager}");
        let output = bench.run_as(user, &["apply", "--server-side", &manager, "-f", &file]).await;
        assert!(output.success(), "{user}: {output:?}");
        bench.read(configuration).await
    };
    let (name_one, name_two) = ("test.evacuation.dev/one", "test.evacuation.dev/two");
    let stored = applies(&alice, &both, "alice").await;
    assert_eq!(keys(&stored), [(&*alice, name_one), (&*alice, name_two)]);
    let stored = applies(&bob, &one, "bob").await;
    assert_eq!(keys(&stored), [(&*alice, name_one), (&*alice, name_two), (&*bob, name_one)]);

    let stored = applies(&alice, &one, "alice").await;
    assert_eq!(keys(&stored), [(&*alice, name_one), (&*bob, name_one)], "alice's second entry is gone");
    let stored = applies(&bob, &none, "bob").await;
    assert_eq!(keys(&stored), [(&*alice, name_one)], "bob's entry is gone");
    let left = stored["status"]["requesters"].as_array().unwrap();
    let left_at = |owner: &str, name: &str| {
        left.iter()
            .any(|entry| entry["owner"] == owner && entry["name"] == name && entry["leftTime"].is_string())
    };
    assert!(left_at(&bob, name_one) && left_at(&alice, name_two) && !left_at(&alice, name_one), "{left:?}");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_cannot_apply_the_entry_of_another() {
    let bench = Workbench::new("foreign").await;
    let bob = bench.user("bob", &["evacuation:requester"]).await.name;
    let evacuation = bench.evacuation();
    bench.applied(&evacuation, &[]).await;
    let mut theirs = evacuation.changed();
    theirs.object["spec"]["requesters"][0]["owner"] = json!("admin");
    let before = bench.settled(&evacuation).await;
    let file = bench.file(&theirs);
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=bob", "-f", &file];
    let refused = bench.run_as(&bob, &apply).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_has(&refused.stderr, &["Error from server (Forbidden)", "override"]);
    assert_eq!(bench.read(&evacuation).await, before);
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_client_side_apply_of_entries_without_an_owner_says_unchanged() {
    let bench = Workbench::new("unchanged").await;
    let evacuation = bench.evacuation();
    let printed = evacuation.printed();
    let entry = |number: u8| json!({"name": format!("test.evacuation.dev/{number}"), "deadline": "2037-01-01T00:00:00Z"});
    let mut first = evacuation.object["spec"]["requesters"][0].clone();
    let applies = async |entries: Value, said: &str| {
        let file = bench.file(&with_entries(&evacuation, &entries));
        assert_eq!(bench.kubectl(&["apply", "-f", &file]).await, format!("{printed} {said}\n"));
    };
    for said in ["created", "unchanged", "unchanged"] {
        applies(json!([first]), said).await;
    }
    for said in ["configured", "unchanged"] {
        applies(json!([entry(2), first, entry(1)]), said).await;
    }
    first["message"] = json!("a fan is replaced");
    for said in ["configured", "unchanged"] {
        applies(json!([entry(2), first]), said).await;
    }
    let stored = bench.read(&evacuation).await;
    assert_eq!(keys(&stored), [("admin", "test.evacuation.dev/2"), ("admin", ENTRY)]);
    assert_eq!(stored["spec"]["requesters"][1]["message"], "a fan is replaced");
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_users_apply_their_own_entries_by_the_client_and_each_removes_only_its_own() {
    let bench = Workbench::new("clientside").await;
    let bob = bench.user("bob", &["evacuation:requester"]).await.name;
    let evacuation = bench.evacuation();
    let file = bench.file(&evacuation);
    bench.kubectl(&["apply", "-f", &file]).await;
    // An entry of bob with the name of that of admin, and another one.
    let patch = json!({"spec": {"requesters": [{"name": ENTRY}, {"name": "test.evacuation.dev/bob"}]}});
    let joined =
        bench.run_as(&bob, &["patch", "evacuation", evacuation.name(), "-p", &patch.to_string()]).await;
    assert!(joined.success(), "{joined:?}");
    let all = [("admin", ENTRY), (&*bob, ENTRY), (&*bob, "test.evacuation.dev/bob")];
    assert_eq!(keys(&bench.read(&evacuation).await), all);

    bench.kubectl(&["apply", "-f", &bench.file(&evacuation.changed())]).await;
    let stored = bench.read(&evacuation).await;
    assert_eq!(keys(&stored), all);
    assert_eq!(evacuation.value(&stored), evacuation.other);
    let other = with_entries(&evacuation, &json!([{"name": "test.evacuation.dev/other"}]));
    bench.kubectl(&["apply", "-f", &bench.file(&other)]).await;
    let left = bench.read(&evacuation).await;
    let left = keys(&left);
    assert_eq!(left.len(), 3, "{left:?}");
    for key in [("admin", "test.evacuation.dev/other"), all[1], all[2]] {
        assert!(left.contains(&key), "{left:?}");
    }
    bench.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_who_share_a_field_manager_do_not_remove_each_others_entries() {
    let bench = Workbench::new("sharedmanager").await;
    let alice = bench.user("alice", &["evacuation:requester"]).await.name;
    let bob = bench.user("bob", &["evacuation:requester"]).await.name;
    let evacuation = bench.evacuation();
    let file = bench.file(&evacuation);
    let created = bench.run_as(&alice, &["apply", "--server-side", "-f", &file]).await;
    assert!(created.success(), "{created:?}");
    // For the server, one manager `kubectl` no longer applies the entry of alice. Hers stays all the same.
    let joined = bench.run_as(&bob, &["apply", "--server-side", "-f", &file]).await;
    assert!(joined.success(), "{joined:?}");
    let stored = bench.read(&evacuation).await;
    assert_eq!(keys(&stored), [(&*alice, ENTRY), (&*bob, ENTRY)]);
    let again = bench.run_as(&alice, &["apply", "--server-side", "-f", &file]).await;
    assert!(again.success(), "{again:?}");
    let stored = bench.read(&evacuation).await;
    assert_eq!(keys(&stored), [(&*alice, ENTRY), (&*bob, ENTRY)]);
    bench.close().await;
}
