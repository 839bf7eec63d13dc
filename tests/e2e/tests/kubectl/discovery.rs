//! Discovery of the API by kubectl.

use controlplane::eventually;
use serde_json::Value;

use crate::{
    desk::{Desk, assert_has, table},
    watch::PATIENCE,
};

#[tokio::test(flavor = "multi_thread")]
async fn explain_knows_every_field() {
    let desk = Desk::new("explain").await;
    // The kube-apiserver fetches the documents of aggregated APIs in its own time.
    let fetched = eventually(PATIENCE, "the kube-apiserver has our document", || async {
        let index = desk.platform().kubectl(&["get", "--raw", "/openapi/v3"]).await.unwrap();
        if index.stdout.contains("apis/evacuation.dev/v1alpha1") { Ok(()) } else { Err(index.stdout) }
    });
    fetched.await.unwrap();
    for (what, expected) in [
        ("evacuation", &["GROUP:", "evacuation.dev", "KIND:", "Evacuation", "spec", "status"][..]),
        ("evacuation.spec.target.pod", &["name", "uid", "-required-"]),
        ("evacuation.spec.requesters.onRefusal", &["ENUM:", "GiveUp", "Wait", "Override", "refusal"]),
        ("evacuation.spec.requesters.deadline", &["string"]),
        ("evacuation.spec.requesters.window", &["schedule", "durationSeconds", "timeZone", "-required-"]),
        ("evacuation.status.policy.nextWindowTime", &["window opens"]),
        ("evacuation.status.conditions", &["lastTransitionTime", "reason"]),
        ("evacuation.metadata", &["generateName", "ObjectMeta"]),
        ("selfevacuation", &["SelfEvacuation", "spec"]),
    ] {
        assert_has(&desk.kubectl(&["explain", what]).await, expected);
    }
    let all = desk.kubectl(&["explain", "evacuation", "--recursive"]).await;
    assert_has(
        &all,
        &["ttlSecondsAfterFinished", "gracePeriodSeconds", "blockedBy", "nextAttemptTime", "ownerReferences"],
    );
    let error = desk.fails(1, &["explain", "evacuation.spec.colour"]).await;
    assert_has(&error, &["colour"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn api_resources_lists_the_kinds_with_their_short_names() {
    let desk = Desk::new("resources").await;
    let arguments = ["api-resources", "--api-group=evacuation.dev", "--no-headers", "-o", "wide"];
    let text = desk.platform().kubectl(&arguments).await.unwrap();
    let text = text.stdout;
    let rows = table(&text);
    let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{text}"));
    let evacuations = row("evacuations");
    assert_eq!(evacuations[1..5], ["evac", "evacuation.dev/v1alpha1", "true", "Evacuation"], "{text}");
    assert_eq!(evacuations[5], "create,delete,deletecollection,get,list,patch,update,watch", "{text}");
    assert_eq!(
        row("selfevacuations")[1..],
        ["selfevac", "evacuation.dev/v1alpha1", "true", "SelfEvacuation", "get,watch"],
        "{text}"
    );

    let raw = desk.platform().kubectl(&["get", "--raw", "/apis/evacuation.dev/v1alpha1"]).await.unwrap();
    let raw: Value = serde_json::from_str(&raw.stdout).unwrap();
    assert_eq!(raw["kind"], "APIResourceList");
    let names: Vec<&str> = raw["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|resource| resource["name"].as_str())
        .collect();
    for name in ["evacuations", "evacuations/status", "evacuations/respond", "selfevacuations/respond"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn can_i_tells_what_the_roles_allow() {
    let desk = Desk::new("cani").await;
    let account = format!("system:serviceaccount:{}:default", desk.pods.namespace());
    for (question, code) in [
        (["list", "selfevacuations"], 0),
        (["create", "selfevacuations/respond"], 0),
        (["list", "evacuations"], 1),
        (["override", "evacuations"], 1),
    ] {
        let [verb, resource] = question;
        let resource = match resource.split_once('/') {
            Some((resource, sub)) => {
                vec![format!("{resource}.evacuation.dev"), format!("--subresource={sub}")]
            }
            None => vec![format!("{resource}.evacuation.dev")],
        };
        let mut arguments = vec!["auth", "can-i", verb];
        arguments.extend(resource.iter().map(String::as_str));
        let as_account = format!("--as={account}");
        arguments.push(&as_account);
        let output = desk.run(&arguments).await;
        assert_eq!(output.code, Some(code), "{question:?}: {output:?}");
    }
    desk.kubectl(&["auth", "can-i", "create", "evacuations"]).await;
    desk.kubectl(&["create", "rolebinding", "edit", "--clusterrole=edit", &format!("--user={account}")])
        .await;
    let edits = desk.run(&["auth", "can-i", "create", "evacuations", &format!("--as={account}")]).await;
    assert_eq!(edits.code, Some(0), "the role edit aggregates ours: {edits:?}");
}
