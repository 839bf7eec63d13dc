use std::time::Duration;

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use machinery_auth::{AuthError, Authenticator, TokenAuthenticator};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use crate::apiserver::{answering, failure, reviewed};

fn bearer(token: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap())])
}

/// Accepts tokens that are not `bad`: each is the name of its user.
fn judge(review: Value) -> (u16, Value) {
    let token = review["spec"]["token"].as_str().unwrap().to_owned();
    let status = match token.as_str() {
        "bad" => json!({"error": "invalid bearer token"}),
        name => json!({"authenticated": true, "user": {
            "username": name, "uid": "u-1", "groups": ["g"], "extra": {"Some/Key": ["value"]},
        }}),
    };
    reviewed(review, status)
}

#[tokio::test(start_paused = true)]
async fn an_accepted_token_is_remembered_for_ten_seconds() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authenticator = TokenAuthenticator::new(client);
    let user = authenticator.authenticate(&bearer("jane"), &[]).await.unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_deref()), ("jane", Some("u-1")));
    assert_eq!(
        (user.groups.as_slice(), user.extra_value("some/key")),
        (["g".to_owned()].as_slice(), Some("value"))
    );

    advance(Duration::from_millis(9_900)).await;
    assert_eq!(authenticator.authenticate(&bearer("jane"), &[]).await.unwrap(), Some(user));
    assert_eq!(calls.count(), 1);

    advance(Duration::from_millis(200)).await;
    authenticator.authenticate(&bearer("jane"), &[]).await.unwrap();
    assert_eq!(calls.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_token_has_its_own_user() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authenticator = TokenAuthenticator::new(client);
    for token in ["jane", "joe", "jane"] {
        let user = authenticator.authenticate(&bearer(token), &[]).await.unwrap().unwrap();
        assert_eq!(user.name, token);
    }
    assert_eq!(calls.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_token_is_asked_about_again_after_a_second() {
    let (client, calls) = answering(async |_, review| judge(review));
    let authenticator = TokenAuthenticator::new(client);
    for _ in 0..2 {
        let refused = authenticator.authenticate(&bearer("bad"), &[]).await.unwrap_err();
        assert!(refused.is_callers_fault());
        assert!(refused.to_string().contains("invalid bearer token"), "{refused}");
    }
    assert_eq!(calls.count(), 1);
    advance(Duration::from_millis(1_100)).await;
    authenticator.authenticate(&bearer("bad"), &[]).await.unwrap_err();
    assert_eq!(calls.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_token_is_not_reviewed() {
    let (client, calls) = answering(async |_, review| judge(review));
    assert!(TokenAuthenticator::new(client).authenticate(&HeaderMap::new(), &[]).await.unwrap().is_none());
    assert_eq!(calls.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_not_the_callers_fault_and_is_not_remembered() {
    let (client, calls) =
        answering(async |call, review| if call <= 5 { failure(500, 0) } else { judge(review) });
    let authenticator = TokenAuthenticator::new(client);
    let outage = authenticator.authenticate(&bearer("jane"), &[]).await.unwrap_err();
    assert!(matches!(outage, AuthError::Unavailable { .. }), "{outage:?}");
    assert_eq!(calls.count(), 5);
    assert!(authenticator.authenticate(&bearer("jane"), &[]).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_moment_of_trouble_is_outlasted() {
    let (client, calls) =
        answering(async |call, review| if call <= 2 { failure(503, 0) } else { judge(review) });
    let user = TokenAuthenticator::new(client).authenticate(&bearer("jane"), &[]).await.unwrap();
    assert!(user.is_some());
    assert_eq!(calls.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_server_says_when_to_ask_again() {
    let (client, _) = answering(async |call, review| if call == 1 { failure(429, 3) } else { judge(review) });
    let before = Instant::now();
    TokenAuthenticator::new(client).authenticate(&bearer("jane"), &[]).await.unwrap();
    assert!(before.elapsed() >= Duration::from_secs(3), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_given_up_after_ten_seconds() {
    let (client, _) = answering(async |_, _| std::future::pending().await);
    let before = Instant::now();
    let outage = TokenAuthenticator::new(client).authenticate(&bearer("jane"), &[]).await.unwrap_err();
    assert!(matches!(outage, AuthError::Unavailable { .. }), "{outage:?}");
    assert_eq!(before.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_may_not_review_tokens_is_no_fault_of_the_caller() {
    let (client, calls) = answering(async |_, _| failure(403, 0));
    let outage = TokenAuthenticator::new(client).authenticate(&bearer("jane"), &[]).await.unwrap_err();
    assert!(!outage.is_callers_fault());
    assert_eq!(calls.count(), 1, "asking again does not help");
}
