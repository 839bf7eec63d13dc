use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use machinery_auth::{
    Attributes, AuthError, Authorizer, ResourceAttributes, SubjectAccessReviewAuthorizer, UserInfo, Verdict,
};
use serde_json::{Value, json};
use tokio::time::{advance, sleep};

use crate::apiserver::{answering, failure, reviewed};

fn user(name: &str) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        uid: Some("u-1".to_owned()),
        groups: vec!["g".to_owned()],
        ..UserInfo::default()
    }
}

fn evict(name: &str) -> Attributes {
    let eviction =
        ResourceAttributes::new("", "v1", "pods").subresource("eviction").in_namespace("shop").named("db-0");
    Attributes::of_resource(user(name), "create", eviction)
}

/// Jane may, others may not.
fn judge(review: Value) -> (u16, Value) {
    let allowed = review["spec"]["user"] == "jane";
    let reason = if allowed { "" } else { "not jane" };
    reviewed(review, json!({"allowed": allowed, "reason": reason}))
}

#[tokio::test(start_paused = true)]
async fn verdicts_are_kept_for_ten_seconds() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authorizer = SubjectAccessReviewAuthorizer::new(client);
    for _ in 0..2 {
        assert_eq!(authorizer.authorize(&evict("jane")).await.unwrap(), Verdict::Allowed);
        let denied = Verdict::Denied { reason: "not jane".to_owned() };
        assert_eq!(authorizer.authorize(&evict("joe")).await.unwrap(), denied);
        advance(Duration::from_millis(4_900)).await;
    }
    assert_eq!(calls.count(), 2);
    advance(Duration::from_millis(300)).await;
    authorizer.authorize(&evict("jane")).await.unwrap();
    authorizer.authorize(&evict("joe")).await.unwrap();
    assert_eq!(calls.count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_cached_for_equal_attributes_only() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authorizer = SubjectAccessReviewAuthorizer::new(client);
    let resource = |change: fn(&mut ResourceAttributes)| {
        let mut attributes = evict("jane");
        change(attributes.resource.as_mut().unwrap());
        attributes
    };
    let user = |change: fn(&mut UserInfo)| {
        let mut attributes = evict("jane");
        change(&mut attributes.user);
        attributes
    };
    let questions = [
        evict("jane"),
        Attributes { verb: "delete".to_owned(), ..evict("jane") },
        resource(|resource| resource.namespace = "other".to_owned()),
        resource(|resource| resource.name = "db-1".to_owned()),
        resource(|resource| resource.subresource.clear()),
        resource(|resource| resource.resource = "nodes".to_owned()),
        resource(|resource| resource.group = "apps".to_owned()),
        user(|user| user.uid = None),
        user(|user| user.groups.clear()),
        user(|user| drop(user.extra.insert("scope".to_owned(), vec!["read".to_owned()]))),
        Attributes::of_path(evict("jane").user, "get", "/metrics"),
    ];
    for question in questions.iter().chain(&questions) {
        authorizer.authorize(question).await.unwrap();
    }
    assert_eq!(calls.count(), questions.len());
}

#[tokio::test(start_paused = true)]
async fn a_right_to_all_objects_of_the_group_costs_one_review_and_a_right_to_one_is_found() {
    let (client, calls) = answering(async |_, review| {
        let name = review["spec"]["resourceAttributes"]["name"].as_str().unwrap_or_default().to_owned();
        let allowed = review["spec"]["user"] == "jane" || name == "db-1";
        reviewed(review, json!({"allowed": allowed}))
    });
    let authorizer = SubjectAccessReviewAuthorizer::new(client).all_objects_first("example.com");
    let ask = async |user: &str, group: &str, name: &str| {
        let mut attributes = evict(user);
        let resource = attributes.resource.as_mut().unwrap();
        (resource.group, resource.name) = (group.to_owned(), name.to_owned());
        authorizer.authorize(&attributes).await.unwrap().is_allowed()
    };
    for name in ["db-0", "db-1", "db-2"] {
        assert!(ask("jane", "example.com", name).await);
    }
    assert_eq!(calls.count(), 1);
    assert!(!ask("joe", "example.com", "db-0").await);
    assert!(ask("joe", "example.com", "db-1").await);
    assert_eq!(calls.count(), 4, "one about all objects, and one about each");
    assert!(ask("jane", "", "db-0").await && ask("jane", "", "db-1").await);
    assert_eq!(calls.count(), 6, "objects of other groups are asked about by name");
}

#[tokio::test(start_paused = true)]
async fn the_review_says_who_and_what() {
    let (client, _) = answering(async |_, review: Value| {
        let spec = &review["spec"];
        let expected = json!({
            "user": "jane", "uid": "u-1", "groups": ["g"], "extra": {},
            "resourceAttributes": {
                "group": "", "version": "v1", "resource": "pods", "subresource": "eviction",
                "namespace": "shop", "name": "db-0", "verb": "create",
            },
        });
        let allowed = *spec == expected;
        let reason = spec.to_string();
        reviewed(review, json!({"allowed": allowed, "reason": reason}))
    });
    let verdict = SubjectAccessReviewAuthorizer::new(client).authorize(&evict("jane")).await.unwrap();
    assert_eq!(verdict, Verdict::Allowed);

    let (client, _) = answering(async |_, review: Value| {
        let allowed = review["spec"]["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
        reviewed(review, json!({"allowed": allowed}))
    });
    let metrics = Attributes::of_path(user("jane"), "get", "/metrics");
    let verdict = SubjectAccessReviewAuthorizer::new(client).authorize(&metrics).await.unwrap();
    assert_eq!(verdict, Verdict::Allowed);
}

#[tokio::test(start_paused = true)]
async fn equal_requests_at_the_same_time_share_one_review() {
    let (client, calls) = answering(async |_, review| {
        sleep(Duration::from_secs(1)).await;
        judge(review)
    });
    let authorizer = Arc::new(SubjectAccessReviewAuthorizer::new(client));
    let question = evict("jane");
    let verdicts = join_all((0..50).map(|_| authorizer.authorize(&question))).await;
    assert!(verdicts.into_iter().all(|verdict| verdict.unwrap().is_allowed()));
    assert_eq!(calls.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_does_not_cancel_the_review_of_others() {
    let (client, calls) = answering(async |_, review| {
        sleep(Duration::from_secs(1)).await;
        judge(review)
    });
    let authorizer = Arc::new(SubjectAccessReviewAuthorizer::new(client));
    let leaves = tokio::spawn({
        let authorizer = Arc::clone(&authorizer);
        async move { authorizer.authorize(&evict("jane")).await }
    });
    while calls.count() == 0 {
        tokio::task::yield_now().await;
    }
    let question = evict("jane");
    let stays = authorizer.authorize(&question);
    let (verdict, ()) = tokio::join!(stays, async { leaves.abort() });
    assert!(verdict.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn the_privileged_group_and_the_probes_are_not_asked_about() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authorizer = SubjectAccessReviewAuthorizer::new(client);
    let mut admin = evict("root");
    admin.user.groups.push("system:masters".to_owned());
    let mut allowed = vec![admin];
    allowed.extend(
        ["/healthz", "/livez", "/readyz"].map(|path| Attributes::of_path(UserInfo::anonymous(), "get", path)),
    );
    for attributes in allowed {
        assert!(authorizer.authorize(&attributes).await.unwrap().is_allowed(), "{attributes:?}");
    }
    assert_eq!(calls.count(), 0);
    let resource = Attributes { path: "/healthz".to_owned(), ..evict("joe") };
    assert!(!authorizer.authorize(&resource).await.unwrap().is_allowed(), "a resource is no probe");
    for path in ["/metrics", "/readyz/etcd", "/"] {
        let verdict =
            authorizer.authorize(&Attributes::of_path(UserInfo::anonymous(), "get", path)).await.unwrap();
        assert!(!verdict.is_allowed(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_an_error_and_is_not_kept() {
    let (client, calls) =
        answering(async |call, review| if call <= 5 { failure(503, 0) } else { judge(review) });
    let authorizer = SubjectAccessReviewAuthorizer::new(client);
    let outage = authorizer.authorize(&evict("jane")).await.unwrap_err();
    assert!(matches!(outage, AuthError::Unavailable { .. }), "{outage:?}");
    assert_eq!(calls.count(), 5);
    assert!(authorizer.authorize(&evict("jane")).await.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_question_made_huge_by_the_caller_is_not_kept() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authorizer = SubjectAccessReviewAuthorizer::new(client);
    let mut huge = evict("jane");
    huge.resource.as_mut().unwrap().name = "x".repeat(10_000);
    for _ in 0..2 {
        assert!(authorizer.authorize(&huge).await.unwrap().is_allowed());
    }
    assert_eq!(calls.count(), 2);
}
